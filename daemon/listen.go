package daemon

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Names in the state directory.
const (
	SocketName   = "node.sock"  // where the API answers
	TokenName    = "token"      // what whoever asks over HTTP must know
	ReadName     = "token-read" // the same, for those who only look
	SettingsName = "node.toml"  // Settings
	PageName     = "page"       // the address of the page, with the token, while the node runs
)

// maxSocket is how many bytes of the path of a socket every system takes.
const maxSocket = 100

// Socket is where the API of the node of a state directory answers.
func Socket(dir string) string { return filepath.Join(dir, SocketName) }

// Listening is where a daemon is asked.
type Listening struct {
	d    *Daemon
	unix []net.Listener
	held []io.Closer // locks beside the sockets
	tcp  net.Listener
	conf Settings
	full api.Access // of tcp
}

// Listen opens what the settings say: the socket in the state directory always. What a
// killed daemon left of it is replaced; a daemon that lives has the directory's key.
func (d *Daemon) Listen() (*Listening, error) {
	l := &Listening{d: d, conf: d.setting()}
	err := l.openUnix(Socket(d.dir), 0o600)
	if err == nil && l.conf.Socket != "" {
		err = l.openUnix(l.conf.Socket, 0o660)
	}
	if err == nil && l.conf.HTTP != "" {
		err = l.openHTTP()
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *Listening) close() {
	for _, u := range l.unix {
		u.Close()
	}
	for _, h := range l.held {
		h.Close()
	}
}

// openUnix listens at a path, which is this process's for as long as it has the lock
// beside it. Until it has its mode, nobody but its owner may connect.
func (l *Listening) openUnix(path string, mode fs.FileMode) error {
	if len(path) > maxSocket {
		return fmt.Errorf("%w: the path of its socket, %s, has %d bytes, and systems take %d; name a state directory with a shorter path", fetcher.ErrStateDir, path, len(path), maxSocket)
	}
	dir, err := vfs.PrivateDir(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	defer dir.Close()
	held, err := dir.Lock(filepath.Base(path) + ".lock")
	switch {
	case errors.Is(err, share.ErrHeld):
		return fmt.Errorf("another process answers at %s; name another socket: %w", path, share.ErrHeld)
	case err != nil:
		return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	l.held = append(l.held, held)
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: %s is no socket, and stays; name another path", fetcher.ErrStateDir, path)
	}
	if answered(path) {
		return fmt.Errorf("another program answers at %s; name another socket: %w", path, share.ErrHeld)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	u, err := ownersListener(path)
	if err != nil {
		return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	l.unix = append(l.unix, u)
	return os.Chmod(path, mode)
}

// answered says whether some program listens at a socket, of whatever type, busy or not.
func answered(path string) bool {
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	return err == nil || errors.Is(err, syscall.EPROTOTYPE) || errors.Is(err, syscall.EAGAIN)
}

// ownersListener listens at a path. Where a system goes by the mode of a socket that is
// not bound yet, only its owner may connect from the beginning; elsewhere the umask says
// who else may, until it has another mode.
func ownersListener(path string) (net.Listener, error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { ownersAlone(fd) })
	}}
	return c.Listen(context.Background(), "unix", path)
}

func (l *Listening) openHTTP() (err error) {
	if l.full.Token, err = secretIn(filepath.Join(l.d.dir, TokenName)); err != nil {
		return err
	}
	if l.full.Read, err = secretIn(filepath.Join(l.d.dir, ReadName)); err != nil {
		return err
	}
	if l.tcp, err = net.Listen("tcp", l.conf.HTTP); err != nil {
		return fmt.Errorf("%w: the API cannot answer at %s: %w", share.ErrNetwork, l.conf.HTTP, err)
	}
	_, port, err := net.SplitHostPort(l.tcp.Addr().String())
	if err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(l.conf.HTTP)
	l.full.Hosts = append([]string{l.tcp.Addr().String(), net.JoinHostPort(host, port)}, l.conf.Hosts...)
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		l.full.Hosts = append(l.full.Hosts, "localhost:"+port)
	}
	for i, h := range l.full.Hosts {
		l.full.Hosts[i] = strings.ToLower(h) // as the Host of a request is compared
	}
	if l.conf.Cert == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(l.conf.Cert, l.conf.Key)
	if err != nil {
		return errors.Join(fmt.Errorf("the certificate cannot be used: %w", err), l.tcp.Close())
	}
	l.tcp = tls.NewListener(l.tcp, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	return nil
}

// URL is the address of the page, with the token behind the # where a browser keeps it
// to itself; empty if HTTP is off.
func (l *Listening) URL() string {
	if l.tcp == nil {
		return ""
	}
	scheme := "http"
	if l.conf.Cert != "" {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s/#token=%s", scheme, l.tcp.Addr(), l.full.Token)
}

// Serve answers until ctx ends. page answers at all that is not of the API.
func (l *Listening) Serve(ctx context.Context, page http.Handler) error {
	defer l.close()
	at := filepath.Join(l.d.dir, PageName)
	os.Remove(at) // of a node that was killed
	if l.tcp != nil && page != nil {
		if err := os.WriteFile(at, []byte(l.URL()+"\n"), 0o600); err != nil {
			return fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
		}
		defer os.Remove(at)
	}
	s := api.NewServer(l.d, l.d.log, l.d.metrics(), page)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var errs [3]error
	serve := func(i int, at net.Listener, a api.Access) {
		all.Go(func() {
			errs[i] = s.Serve(ctx, at, a)
			cancel() // one that fails ends the others
		})
	}
	for i, u := range l.unix {
		serve(i, u, api.Access{})
	}
	if l.tcp != nil {
		serve(2, l.tcp, l.full)
	}
	all.Wait()
	return errors.Join(errs[:]...)
}

// secretIn is the secret that a file keeps, which is made if it is not there.
func secretIn(path string) (string, error) {
	b, err := os.ReadFile(path)
	if s := strings.TrimSpace(string(b)); err == nil && len(s) >= 20 && len(s) <= 256 {
		return s, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	s := rand.Text()
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(s+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return "", fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	return s, nil
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint("number ", os.Getuid())
}
