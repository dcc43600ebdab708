package cert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The keys of the Secret. All but the last are conventional, so that monitoring tools for certificates find them.
const (
	bundleKey         = "ca.crt" // the CAs that clients must trust
	authorityKeyKey   = "ca.key" // the private keys of the CAs that sign or will sign
	servingKey        = "tls.crt"
	servingPrivateKey = "tls.key"
	retiredKey        = "retired.crt" // serving certificates that were replaced and have not expired
)

// bundle is the PEM of the CAs that clients must trust.
func (s state) bundle() []byte {
	var b strings.Builder
	for _, a := range s.authorities {
		writeCertificate(&b, a.cert)
	}
	return []byte(b.String())
}

func (s state) encode() (map[string][]byte, error) {
	var keys, servingCert, servingKeyPEM, retired strings.Builder
	for _, a := range s.authorities {
		if a.key == nil {
			continue
		}
		if err := writeKey(&keys, a.key); err != nil {
			return nil, err
		}
	}
	writeCertificate(&servingCert, s.serving.cert)
	if err := writeKey(&servingKeyPEM, s.serving.key); err != nil {
		return nil, err
	}
	for _, c := range s.retired {
		writeCertificate(&retired, c)
	}
	return map[string][]byte{
		bundleKey: s.bundle(), authorityKeyKey: []byte(keys.String()),
		servingKey: []byte(servingCert.String()), servingPrivateKey: []byte(servingKeyPEM.String()),
		retiredKey: []byte(retired.String()),
	}, nil
}

func writeCertificate(b *strings.Builder, c *x509.Certificate) {
	_ = pem.Encode(b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a Builder never fails
}

func writeKey(b *strings.Builder, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("cannot write a key: %w", err)
	}
	return pem.Encode(b, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// decode parses what encode wrote, or as much of it as is valid. The error names the rest. Keys of CAs and the serving
// pair may be missing: they are created again.
func decode(data map[string][]byte) (state, error) {
	var s state
	var problems []error
	problem := func(key string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %w", key, err))
		}
	}

	authorities, err := readAuthorities(data[bundleKey])
	problem(bundleKey, err)
	keys, err := readKeys(data[authorityKeyKey])
	problem(authorityKeyKey, err)
	for _, c := range authorities {
		i := slices.IndexFunc(keys, func(k *ecdsa.PrivateKey) bool { return k.PublicKey.Equal(c.PublicKey) })
		a := authority{cert: c}
		if i >= 0 {
			a.key = keys[i]
		}
		s.authorities = append(s.authorities, a)
	}
	sortAuthorities(s.authorities)

	s.serving, err = readServing(data[servingKey], data[servingPrivateKey], s.authorities)
	problem(servingKey, err)
	s.retired, err = readCertificates(data[retiredKey])
	problem(retiredKey, err)
	return s, errors.Join(problems...)
}

func readAuthorities(text []byte) ([]*x509.Certificate, error) {
	certs, err := readCertificates(text)
	if err != nil {
		return nil, err
	}
	if len(certs) == 0 {
		return nil, errors.New("holds no certificate")
	}
	if slices.ContainsFunc(certs, func(c *x509.Certificate) bool { return !c.IsCA || len(c.SubjectKeyId) == 0 }) {
		return nil, errors.New("holds a certificate that is not that of a CA")
	}
	return certs, nil
}

func readServing(cert, key []byte, authorities []authority) (*serving, error) {
	if len(cert) == 0 && len(key) == 0 {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("does not fit %s: %w", servingPrivateKey, err)
	}
	private, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("is not an ECDSA certificate")
	}
	if !slices.ContainsFunc(authorities, func(a authority) bool {
		return a.signed(pair.Leaf) && pair.Leaf.CheckSignatureFrom(a.cert) == nil
	}) {
		return nil, fmt.Errorf("is signed by none of the CAs in %s", bundleKey)
	}
	return &serving{pair.Leaf, private}, nil
}

func readCertificates(text []byte) ([]*x509.Certificate, error) {
	return readBlocks(text, func(der []byte) (*x509.Certificate, error) {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("is no certificate: %w", err)
		}
		return c, nil
	})
}

func readKeys(text []byte) ([]*ecdsa.PrivateKey, error) {
	return readBlocks(text, func(der []byte) (*ecdsa.PrivateKey, error) {
		parsed, err := x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			return nil, errors.New("is no private key in PKCS #8")
		}
		key, ok := parsed.(*ecdsa.PrivateKey)
		if !ok {
			return nil, errors.New("is no ECDSA key")
		}
		return key, nil
	})
}

// readBlocks parses the blocks of a text that must be PEM only.
func readBlocks[T any](text []byte, parse func(der []byte) (T, error)) (all []T, err error) {
	for text = bytes.TrimSpace(text); len(text) > 0; text = bytes.TrimSpace(text) {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("is not PEM")
		}
		one, err := parse(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}
