package cert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// The keys of the Secret. Those of certificates are conventional, so that monitoring tools for certificates find them.
const (
	bundleKey         = "ca.crt"
	authorityKeyKey   = "ca.key"
	servingKey        = "tls.crt"
	servingPrivateKey = "tls.key"
	// pathKey has the secret of paths, previousPathKey the one before.
	pathKey         = "path.secret"
	previousPathKey = "path.previous"
)

// bundle is the PEM of the CA that clients must trust.
func (s state) bundle() []byte {
	if s.authority == nil {
		return nil
	}
	return pemOf(s.authority.cert)
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func (s state) encode() (map[string][]byte, error) {
	data := map[string][]byte{pathKey: []byte(s.secrets[0])}
	if s.secrets[1] != "" {
		data[previousPathKey] = []byte(s.secrets[1])
	}
	if s.serving == nil {
		return data, nil
	}
	data[bundleKey], data[servingKey] = s.bundle(), pemOf(s.serving.cert)
	for key, p := range map[string]*pair{authorityKeyKey: s.authority, servingPrivateKey: s.serving} {
		der, err := x509.MarshalPKCS8PrivateKey(p.key)
		if err != nil {
			return nil, fmt.Errorf("cannot write a key: %w", err)
		}
		data[key] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	return data, nil
}

// decode parses what encode wrote, or as much of it as is valid. The error names the rest. What is missing is created again.
func decode(data map[string][]byte) (state, error) {
	s := state{secrets: [2]string{string(data[pathKey]), string(data[previousPathKey])}}
	var problems []error
	problem := func(key string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %w", key, err))
		}
	}
	var err error
	s.authority, err = readAuthority(data[bundleKey])
	problem(bundleKey, err)
	if key := data[authorityKeyKey]; s.authority != nil && len(key) > 0 {
		s.authority.key, err = readKey(key)
		if err == nil && !s.authority.key.PublicKey.Equal(s.authority.cert.PublicKey) {
			s.authority.key, err = nil, errors.New("does not fit "+bundleKey)
		}
		problem(authorityKeyKey, err)
	}
	s.serving, err = readServing(data[servingKey], data[servingPrivateKey], s.authority)
	problem(servingKey, err)
	return s, errors.Join(problems...)
}

func readAuthority(text []byte) (*pair, error) {
	if len(text) == 0 {
		return nil, nil
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("is not PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !c.IsCA || len(c.SubjectKeyId) == 0 {
		return nil, errors.New("is not the certificate of a CA")
	}
	return &pair{cert: c}, nil
}

func readServing(cert, key []byte, authority *pair) (*pair, error) {
	if len(bytes.TrimSpace(cert)) == 0 && len(bytes.TrimSpace(key)) == 0 {
		return nil, nil
	}
	both, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("does not fit %s: %w", servingPrivateKey, err)
	}
	private, ok := both.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("is not an ECDSA certificate")
	}
	if !authority.signed(both.Leaf) {
		return nil, fmt.Errorf("is not signed by the CA in %s", bundleKey)
	}
	return &pair{both.Leaf, private}, nil
}

func readKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("is no private key in PKCS #8")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("is no ECDSA key")
	}
	return key, nil
}
