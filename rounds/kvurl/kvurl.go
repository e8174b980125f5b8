// Package kvurl opens the store of rounds that a URL names. A program that imports it
// links the clients of all kinds of stores.
package kvurl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/etcdkv"
	"github.com/piecelease/fetcher/rounds/natskv"
	"github.com/piecelease/fetcher/rounds/sqlitekv"
)

// Store is an open store.
type Store interface {
	rounds.KV
	io.Closer
}

// Forms are the URLs that Open takes.
const Forms = `  sqlite:PATH                              a file, for one machine
  nats://[USER:PASSWORD@]HOST[:PORT]/NAME  a bucket of NATS JetStream; in a
                                           cluster, ?replicas=3 after the name
  etcd://[USER:PASSWORD@]HOST[:PORT]/NAME  etcd
With TLS: nats+tls:// and etcd+tls://; ?cert=FILE after the name if the server
wants a certificate of this machine: FILE holds the certificate and its key, as
PEM. Put commas between several hosts.`

// ErrURL is returned for text that is not the URL of a store.
var ErrURL = errors.New("not the URL of a store")

// Open opens the store that a URL names; see [Forms]. Close it.
func Open(ctx context.Context, at string) (Store, error) {
	if path, ok := strings.CutPrefix(at, "sqlite:"); ok {
		if path == "" {
			return nil, fmt.Errorf(`%w: a path must follow "sqlite:"`, ErrURL)
		}
		return opened(sqlitekv.Open(ctx, path))
	}
	u, err := parse(at)
	if err != nil {
		return nil, err
	}
	if _, err := u.certificate(nil); err != nil {
		return nil, fmt.Errorf("%w: %w", rounds.ErrUnfit, err)
	}
	if u.kind == "nats" {
		return opened(natskv.Open(ctx, u.nats()))
	}
	return opened(etcdkv.Open(ctx, u.etcd()))
}

// Absolute returns the URL with the path of a file in it made absolute, so that it means
// the same store in every working directory.
func Absolute(at string) (string, error) {
	path, ok := strings.CutPrefix(at, "sqlite:")
	if !ok || path == "" {
		return at, nil
	}
	path, err := filepath.Abs(path)
	return "sqlite:" + path, err
}

// Place returns what of the URL says which store it is: without a user, a password, TLS and options.
func Place(at string) (string, error) {
	if strings.HasPrefix(at, "sqlite:") {
		return Absolute(at)
	}
	p, err := parse(at)
	slices.Sort(p.hosts)
	return p.kind + "://" + strings.Join(p.hosts, ",") + "/" + p.name, err
}

// opened returns what a package opened, or nil: a nil pointer in an interface is not nil.
func opened[S Store](s S, err error) (Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// A place is a store behind servers.
type place struct {
	kind     string // nats, etcd
	tls      bool
	user     *url.Userinfo
	hosts    []string // with ports
	name     string
	replicas int
	cert     string // a file; empty: none
}

var ports = map[string]string{"nats": "4222", "etcd": "2379"}

// parse reads a URL that may name several servers, which url.Parse does not take.
// Errors do not repeat it: it may hold a password.
func parse(at string) (p place, err error) {
	scheme, rest, ok := strings.Cut(at, "://")
	p.kind, p.tls = strings.CutSuffix(scheme, "+tls")
	if !ok || ports[p.kind] == "" {
		return p, fmt.Errorf("%w; a store is one of\n%s", ErrURL, Forms)
	}
	rest, query, _ := strings.Cut(rest, "?")
	servers, name, _ := strings.Cut(rest, "/")
	if p.name = name; rounds.CheckKey(name) != nil || strings.Contains(name, ".") {
		return p, fmt.Errorf("%w: it must end in a slash and the name of the store, which has letters, digits, _ and -; a slash in the user or the password is written %%2F", ErrURL)
	}
	if i := strings.LastIndexByte(servers, '@'); i >= 0 {
		u, err := url.Parse("//" + servers[:i] + "@host")
		if err != nil {
			return p, fmt.Errorf("%w: special characters of the user or the password must be written as %%XX", ErrURL)
		}
		p.user, servers = u.User, servers[i+1:]
	}
	for host := range strings.SplitSeq(servers, ",") {
		u, err := url.Parse("//" + host)
		switch wrong := err != nil || u.Host != host || u.Hostname() == ""; {
		case wrong && strings.Contains(query, "@"): // it may be half of a password
			return p, fmt.Errorf("%w: a question mark in the user or the password is written %%3F, and a slash %%2F", ErrURL)
		case wrong:
			return p, fmt.Errorf("%w: %q is not HOST:PORT", ErrURL, host)
		}
		if u.Port() == "" {
			host = strings.TrimSuffix(host, ":") + ":" + ports[p.kind]
		}
		p.hosts = append(p.hosts, host)
	}
	return p, p.options(query)
}

// options reads what follows the question mark.
func (p *place) options(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrURL, err)
	}
	for key, value := range values {
		n, err := strconv.Atoi(value[0])
		switch {
		case key == "replicas" && p.kind == "nats" && err == nil && n >= 1 && n <= 5:
			p.replicas = n
		case key == "cert" && p.tls && filepath.IsAbs(value[0]):
			p.cert = value[0]
		default:
			return fmt.Errorf("%w: only these may follow the ?, with & between them: replicas=1 to 5 (NATS only), and cert= with the absolute path of a file (TLS only)", ErrURL)
		}
	}
	return nil
}

// config is how TLS is spoken.
func (p place) config() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.cert != "" {
		c.GetClientCertificate = p.certificate
	}
	return c
}

// certificate reads that of this machine, for each connection anew: it may have been renewed.
func (p place) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if p.cert == "" {
		return nil, nil
	}
	c, err := tls.LoadX509KeyPair(p.cert, p.cert)
	if err != nil {
		return nil, fmt.Errorf("the certificate in %s, and its key, cannot be read: %w", p.cert, err)
	}
	return &c, nil
}

func (p place) nats() natskv.Config {
	var urls []string
	for _, host := range p.hosts {
		u := url.URL{Scheme: "nats", User: p.user, Host: host}
		if p.tls {
			u.Scheme = "tls"
		}
		urls = append(urls, u.String())
	}
	return natskv.Config{URL: strings.Join(urls, ","), Bucket: p.name, Replicas: p.replicas, TLS: p.config()}
}

func (p place) etcd() etcdkv.Config {
	c := etcdkv.Config{Endpoints: p.hosts, Name: p.name, User: p.user.Username()}
	c.Password, _ = p.user.Password()
	if p.tls {
		c.TLS = p.config()
	}
	return c
}
