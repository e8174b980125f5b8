//go:build linux

package bench

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"time"
)

// bareTLSServe prints an address and sends one connection as many bytes as it asks for.
func bareTLSServe() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return err
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(crand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		var hello [8]byte
		if _, err := io.ReadFull(c, hello[:]); err != nil {
			return
		}
		data := pattern()[:256<<10]
		for left := int64(binary.BigEndian.Uint64(hello[:])); left > 0; {
			n, err := c.Write(data[:min(left, int64(len(data)))])
			left -= int64(n)
			if err != nil {
				return
			}
		}
	}()
	io.Copy(io.Discard, os.Stdin)
	return nil
}

// bareTLSFetch reads size bytes and discards them.
func bareTLSFetch(addr string, size int64) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	s := tls.Client(c, &tls.Config{InsecureSkipVerify: true}) // nothing is kept
	defer s.Close()
	if _, err := s.Write(binary.BigEndian.AppendUint64(nil, uint64(size))); err != nil {
		return err
	}
	buf := make([]byte, 256<<10)
	for left := size; left > 0; {
		n, err := s.Read(buf)
		left -= int64(n)
		if err != nil && left > 0 {
			return err
		}
	}
	return nil
}
