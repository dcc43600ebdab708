package cert

import (
	"crypto/x509"
	"fmt"
	"os"
)

// ClientCAs reads the CAs of client certificates, for tls.Config.ClientCAs. Each file must contain at least one
// certificate.
func ClientCAs(paths []string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the client CA: %w", err)
		}
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the client CA file %q contains no PEM certificate: it must have the CA that signed the client certificate of "+
				"the API server", path)
		}
	}
	return pool, nil
}
