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
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Names in the state directory.
const (
	SocketName   = "node.sock"  // where the API answers
	TokenName    = "token"      // what a client over HTTP must know
	ReadName     = "token-read" // the same, for clients that may only look
	SettingsName = "node.toml"  // Settings
	PageName     = "page"       // the address of the page, with the token; only while the node runs
)

// maxSocket is the longest path of a socket, in bytes, that every system takes.
const maxSocket = 100

// Socket returns where the API answers for the node of a state directory.
func Socket(dir string) string { return filepath.Join(dir, SocketName) }

// Listening is the listeners of a daemon.
type Listening struct {
	d    *Daemon
	unix []net.Listener
	held []io.Closer // locks beside the sockets
	tcp  net.Listener
	conf Settings
	full api.Access // of tcp
}

// Listen opens the listeners that the settings ask for, and always the socket in the state directory.
// A socket left by a killed daemon is replaced; a live daemon holds the lock of the directory.
func (d *Daemon) Listen() (*Listening, error) {
	l := &Listening{d: d, conf: d.setting()}
	err := l.openUnix(Socket(d.dir), 0o600)
	switch {
	case err != nil || l.conf.Socket == "":
	case isSame(filepath.Clean(l.conf.Socket), Socket(d.dir)):
		err = words.Error(ErrSettings, "the socket %s is the one that only the owner of this state directory may open; set socket to another path, in node.toml or as a flag", l.conf.Socket)
	default:
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

// isSame reports whether two paths are the same file, also through links.
func isSame(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return a == b || err == nil && err2 == nil && os.SameFile(x, y)
}

func (l *Listening) close() {
	for _, u := range l.unix {
		u.Close()
	}
	for _, h := range l.held {
		h.Close()
	}
}

// openUnix listens at a path, which belongs to this process for as long as it holds the lock beside
// it. Until the socket has its mode, only its owner may connect.
func (l *Listening) openUnix(path string, mode fs.FileMode) error {
	own := path == Socket(l.d.dir)
	unusable := func(err error) error {
		if own {
			return fmt.Errorf("%w: its socket %s cannot be made: %w", fetcher.ErrStateDir, path, err)
		}
		return words.Error(errors.Join(ErrSettings, err), "the socket %s cannot be made: %s; set socket to another path, in node.toml or as a flag", path, words.Plain(err))
	}
	if len(path) > maxSocket {
		return unusable(fmt.Errorf("its path is %d bytes long, and may be at most %d", len(path), maxSocket))
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket { // no lock is made beside it
		return unusable(errors.New("a file of another kind is there, and is left alone"))
	}
	dir, err := vfs.PrivateDir(filepath.Dir(path))
	if err != nil {
		return unusable(err)
	}
	defer dir.Close()
	held, err := dir.Lock(filepath.Base(path) + ".lock")
	switch {
	case errors.Is(err, share.ErrHeld) && own:
		return words.Error(share.ErrHeld, "another fetcher has the socket of this state directory, %s", path)
	case errors.Is(err, share.ErrHeld):
		return words.Error(share.ErrHeld, "another fetcher uses the socket %s; set socket to another path, in node.toml or as a flag", path)
	case err != nil:
		return unusable(err)
	}
	l.held = append(l.held, held)
	switch taken := answered(path); {
	case taken && own:
		return words.Error(share.ErrHeld, "another program answers at the socket of this state directory, %s", path)
	case taken:
		return words.Error(share.ErrHeld, "another program answers at the socket %s; set socket to another path, in node.toml or as a flag", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unusable(err)
	}
	u, err := ownersListener(path)
	if err != nil {
		return unusable(err)
	}
	l.unix = append(l.unix, u)
	return confineSocket(path, mode, own)
}

// confineSocket gives a socket its mode. One that others may use all the same is refused.
func confineSocket(path string, mode fs.FileMode, own bool) error {
	err := os.Chmod(path, mode)
	if e := vfs.Confine(path, mode); e != nil {
		err = e
	}
	switch {
	case !errors.Is(err, vfs.ErrNotPrivate):
		return err
	case own:
		return words.Error(errors.Join(fetcher.ErrStateDir, err), "others could use this node through its socket %s, as that disk does not keep permissions; choose a state directory on a disk that does", path)
	}
	return words.Error(errors.Join(ErrSettings, err), "everybody could use this node through the socket %s, as that disk does not keep permissions; set socket to a path on a disk that does, in node.toml or as a flag", path)
}

// answered reports whether some program listens at a socket, of whatever type, busy or not.
func answered(path string) bool {
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	return err == nil || errors.Is(err, syscall.EPROTOTYPE) || errors.Is(err, syscall.EAGAIN)
}

// ownersListener listens at a path. Where a system respects the mode of a socket that is not bound
// yet, only its owner may connect from the start; elsewhere the umask decides who else may, until the
// mode is changed.
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
		why := err
		if s, ok := errors.AsType[*os.SyscallError](err); ok {
			why = s.Err
		}
		return words.Error(errors.Join(share.ErrNetwork, err), "the API cannot answer at %s: %v", l.conf.HTTP, why)
	}
	_, port, err := net.SplitHostPort(l.tcp.Addr().String())
	if err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(l.conf.HTTP)
	l.full.Hosts = append([]string{l.tcp.Addr().String(), net.JoinHostPort(host, port)}, l.conf.Hosts...)
	ip := net.ParseIP(host)
	l.full.AnyIP = ip.IsUnspecified()
	if host == "localhost" || l.full.AnyIP || ip.IsLoopback() {
		l.full.Hosts = append(l.full.Hosts, "localhost:"+port)
	}
	for i, h := range l.full.Hosts {
		l.full.Hosts[i] = strings.ToLower(h) // the form in which the Host of a request is compared
	}
	if l.conf.Cert == "" {
		return nil
	}
	shown := &shownCertificate{cert: l.conf.Cert, key: l.conf.Key, log: l.d.log}
	if _, err := shown.get(nil); err != nil {
		return errors.Join(words.Error(err, "the certificate %s with the key %s cannot be used: %s", l.conf.Cert, l.conf.Key, strings.TrimPrefix(words.Plain(err), "tls: ")), l.tcp.Close())
	}
	l.tcp = tls.NewListener(l.tcp, &tls.Config{GetCertificate: shown.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	return nil
}

// URL returns the address of the page, with the token after the #, which a browser does not send;
// empty if HTTP is off.
func (l *Listening) URL() string {
	if l.tcp == nil {
		return ""
	}
	scheme := "http"
	if l.conf.Cert != "" {
		scheme = "https"
	}
	at := l.tcp.Addr().String()
	if l.full.AnyIP { // where a browser on this machine finds it
		_, port, _ := net.SplitHostPort(at)
		at = net.JoinHostPort("127.0.0.1", port)
	}
	return fmt.Sprintf("%s://%s/#token=%s", scheme, at, l.full.Token)
}

// Serve answers until ctx ends. page answers at all paths that are not part of the API.
func (l *Listening) Serve(ctx context.Context, page http.Handler) error {
	defer l.close()
	at := filepath.Join(l.d.dir, PageName)
	os.Remove(at) // left by a node that was killed
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
			cancel() // a listener that fails ends the others
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

// secretIn returns the secret in a file. If there is none, or its length is wrong, it makes one.
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
