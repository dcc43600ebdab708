package cert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"time"
)

// state is what replicas share.
type state struct {
	// authorities are the CAs that clients must trust, oldest first.
	authorities []authority
	// serving is nil when there is no usable one. One of authorities signed it.
	serving *serving
	// retired are replaced serving certificates that have not expired. A replica without a connection may still serve
	// them.
	retired []*x509.Certificate
}

// authority is a CA.
type authority struct {
	cert *x509.Certificate
	// key is nil when the CA signs no more.
	key *ecdsa.PrivateKey
}

// serving is the certificate of a server.
type serving struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// made is when the CA was added to the bundle.
func (a authority) made() time.Time { return a.cert.NotBefore.Add(backdate) }

func (a authority) signed(c *x509.Certificate) bool {
	return bytes.Equal(c.AuthorityKeyId, a.cert.SubjectKeyId)
}

func validAt(c *x509.Certificate, t time.Time) bool {
	return !t.Before(c.NotBefore) && t.Before(c.NotAfter)
}

// due is when a certificate should be replaced: after two thirds of its life.
func due(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3)
}

// covers reports whether a certificate is valid for all names.
func covers(c *x509.Certificate, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(namesOf(c), name) })
}

func namesOf(c *x509.Certificate) []string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// splitNames separates IP addresses from DNS names.
func splitNames(names []string) (dns []string, ips []net.IP) {
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			ips = append(ips, ip)
		} else {
			dns = append(dns, name)
		}
	}
	return dns, ips
}

func (s state) usable() bool { return s.serving != nil }

// certificate is the serving certificate for crypto/tls.
func (s state) certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{s.serving.cert.Raw}, PrivateKey: s.serving.key, Leaf: s.serving.cert}
}
