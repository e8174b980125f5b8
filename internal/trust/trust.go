// Package trust says why TLS with the server of a store fails, in words that help.
package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/rounds"
)

// Kinds of [rounds.ErrUnfit].
var (
	ErrPlain = fmt.Errorf("%w: its server has no TLS; leave +tls out of the URL, or turn TLS on there", rounds.ErrUnfit)
	ErrTLS   = fmt.Errorf("%w: its server takes only TLS; write +tls before the :// of the URL", rounds.ErrUnfit)
	ErrOurs  = fmt.Errorf("%w: its server takes only machines with a certificate that it trusts; put ?cert=FILE at the end of the URL, where FILE has the certificate of this machine and its key", rounds.ErrUnfit)
)

// Refusal is a kind of [rounds.ErrUnfit] if an error says that one side does not trust the other, or speaks no TLS;
// else nil.
func Refusal(err error) error {
	const theirs = "%w: its server's certificate "
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, new(tls.RecordHeaderError)):
		return ErrPlain
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf(theirs+"is signed by a CA that is not trusted here; add that CA to those that this system trusts%s", rounds.ErrUnfit, inFile)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf(theirs+"is valid from %s to %s only; renew it, or set the clock of this machine right", rounds.ErrUnfit,
			words.Date(invalid.Cert.NotBefore), words.Date(invalid.Cert.NotAfter))
	}
	if bad, ok := errors.AsType[x509.HostnameError](err); ok {
		if names(bad.Certificate) == "" {
			return fmt.Errorf(theirs+"names no host; give that server one that names %s", rounds.ErrUnfit, bad.Host)
		}
		return fmt.Errorf(theirs+"is for %s, not for %s; the URL has to name the host as the certificate does", rounds.ErrUnfit, names(bad.Certificate), bad.Host)
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf(theirs+"is not trusted here: %s", rounds.ErrUnfit, strings.TrimPrefix(bad.Err.Error(), "x509: "))
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		if strings.Contains(alert.Err.Error(), "certificate") {
			return ErrOurs
		}
		return fmt.Errorf("%w: its server ended the TLS connection: %s", rounds.ErrUnfit, strings.TrimPrefix(alert.Err.Error(), "tls: "))
	}
	return nil
}

// mostNames and longestName bound what is said of a certificate that nobody has vouched for.
const mostNames, longestName = 8, 253

// names is whom a certificate is for, as far as it is worth saying; empty: nobody.
func names(c *x509.Certificate) string {
	var all []string
	for _, name := range c.DNSNames[:min(len(c.DNSNames), mostNames)] {
		name = strconv.Quote(name[:min(len(name), longestName)])
		all = append(all, name[1:len(name)-1])
	}
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	if n := len(c.DNSNames) + len(c.IPAddresses); n > mostNames {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:mostNames], ", "), n-mostNames)
	}
	return strings.Join(all, ", ")
}

// inFile is another way to have a CA trusted, which the systems with a store of their own for them do not know.
var inFile = map[bool]string{true: ", or name its file in SSL_CERT_FILE"}[runtime.GOOS != "darwin" && runtime.GOOS != "windows"]
