package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/rounds"
)

func TestWhyTLSFails(t *testing.T) {
	listen := func(auth tls.ClientAuthType, versions ...uint16) *httptest.Server {
		s := httptest.NewUnstartedServer(nil)
		s.TLS = &tls.Config{ClientAuth: auth}
		for _, v := range versions {
			s.TLS.MaxVersion = v
		}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	open, closed, old := listen(tls.NoClientCert), listen(tls.RequireAnyClientCert), listen(tls.NoClientCert, tls.VersionTLS12)
	plain := httptest.NewServer(nil)
	t.Cleanup(plain.Close)
	known := x509.NewCertPool()
	known.AddCert(open.Certificate())
	for what, x := range map[string]struct {
		to   *httptest.Server
		with *tls.Config
		says string
	}{
		"an unknown CA":    {open, &tls.Config{RootCAs: x509.NewCertPool()}, "a CA that is not trusted here"},
		"another host":     {open, &tls.Config{RootCAs: known, ServerName: "a.invalid"}, "is for example.com, *.example.com, 127.0.0.1, ::1, not for a.invalid"},
		"a wrong clock":    {open, &tls.Config{RootCAs: known, Time: func() time.Time { return time.Unix(1<<40, 0) }}, "only; renew it, or set the clock"},
		"no certificate":   {closed, &tls.Config{RootCAs: known}, "?cert=FILE"},
		"no TLS":           {plain, &tls.Config{RootCAs: known}, "has no TLS"},
		"an old server":    {old, &tls.Config{RootCAs: known, MinVersion: tls.VersionTLS13}, "ended the TLS connection: protocol version not supported"},
		"another use":      {open, &tls.Config{RootCAs: known, VerifyConnection: func(tls.ConnectionState) error { return use }}, "not trusted here: certificate specifies an incompatible key usage"},
		"nothing":          {open, &tls.Config{RootCAs: known}, ""},
		"another mishap":   {open, &tls.Config{RootCAs: known, VerifyConnection: func(tls.ConnectionState) error { return io.ErrUnexpectedEOF }}, ""},
		"a wrong password": {open, &tls.Config{RootCAs: known, VerifyConnection: func(tls.ConnectionState) error { return rounds.ErrLogin }}, ""},
	} {
		conn, err := tls.Dial("tcp", x.to.Listener.Addr().String(), x.with)
		if err == nil {
			if x.to == closed {
				_, err = conn.Read(make([]byte, 1))
			}
			conn.Close()
		}
		why := Refusal(err)
		switch {
		case x.says == "" && why == nil:
		case why == nil, x.says == "", !errors.Is(why, rounds.ErrUnfit), !strings.Contains(why.Error(), x.says), strings.Contains(why.Error(), "x509"), strings.Contains(why.Error(), "tls:"):
			t.Errorf("%s: %v, from %v", what, why, err)
		}
	}
}

// use is what is said of a certificate that was made for something else.
var use = &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}}

// A server that nobody knows does not say more than fits into a line, nor what moves a terminal.
func TestTheNamesOfAStrangerAreBounded(t *testing.T) {
	ip := net.IPv6loopback
	for want, c := range map[string]x509.Certificate{
		"certificate names no host; give that server one that names h": {},
		"for ::1, not for h;":                                   {IPAddresses: []net.IP{ip}},
		"for a, b, c, d, e, f, g, ::1, not for h;":              {DNSNames: strings.Fields("a b c d e f g"), IPAddresses: []net.IP{ip}},
		"for a, b, c, d, e, f, g, i and 2 more, not for h;":     {DNSNames: strings.Fields("a b c d e f g i j"), IPAddresses: []net.IP{ip}},
		`for \x1b[2J\n, not for h;`:                             {DNSNames: []string{"\x1b[2J\n"}},
		"for " + strings.Repeat("x", longestName) + ", not for": {DNSNames: []string{strings.Repeat("x", longestName+1)}},
	} {
		if why := Refusal(x509.HostnameError{Certificate: &c, Host: "h"}); !strings.Contains(why.Error(), want) {
			t.Errorf("no %q in %v", want, why)
		}
	}
}
