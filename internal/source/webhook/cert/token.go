package cert

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
)

// Token is a text of 64 hexadecimal digits that belongs to a path, derived from the private key.
func (s *Source) Token(path string) string { return token(s.now().keys[0], path) }

// Valid reports whether a token is that of a path, or was until the private key changed for the last time.
func (s *Source) Valid(path, text string) bool {
	valid := false
	for _, key := range s.now().keys {
		valid = len(key) > 0 && hmac.Equal([]byte(text), []byte(token(key, path))) || valid
	}
	return valid
}

// tokenKey derives a key from the private key of a certificate, so that a token says nothing about that.
func tokenKey(c *tls.Certificate) []byte {
	private, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		panic("a certificate in use has an unknown kind of private key: " + err.Error()) // tls.X509KeyPair rejects it
	}
	mac := hmac.New(sha256.New, private)
	mac.Write([]byte("shell-operator: tokens of webhook paths"))
	return mac.Sum(nil)
}

func token(key []byte, path string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(path))
	return hex.EncodeToString(mac.Sum(nil))
}
