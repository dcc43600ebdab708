package cert

import (
	"crypto/x509"
	"fmt"
	"os"
)

// ClientCAs reads the CAs that clients' certificates must be signed by, for tls.Config.ClientCAs. Each file must hold
// at least one certificate.
func ClientCAs(paths []string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the client CA: %w", err)
		}
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the client CA file %q holds no certificate in PEM: put there the CA that signed the certificate of your API server's client", path)
		}
	}
	return pool, nil
}
