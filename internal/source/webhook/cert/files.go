package cert

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/shell-operator/shell-operator/internal/filewatch"
)

// FilesOptions of a Files Source. All but CA are required.
type FilesOptions struct {
	// Paths of PEM files. Without CA the Bundle is empty.
	Cert, Key, CA string
	// For names the purpose of the certificate in messages: "webhook".
	For string
	Log *slog.Logger
}

// Files returns a Source that reads files. Certificates that clients will reject are logged.
func Files(o FilesOptions) (*Source, error) {
	paths := []string{o.Cert, o.Key}
	if o.CA != "" {
		paths = append(paths, o.CA)
	}
	return inFiles(o.Log, paths, "The "+o.For+" certificate cannot be reloaded, the last one stays in use", func(s *Source) error {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		var ca []byte
		if err == nil && o.CA != "" {
			ca, err = os.ReadFile(o.CA)
		}
		before := s.now()
		switch {
		case errors.As(err, new(*fs.PathError)):
			return fmt.Errorf("cannot read the %s certificate: %w: mount the Secret there", o.For, err)
		case err != nil:
			return fmt.Errorf("cannot use the %s certificate %q with the private key %q: both must be PEM and belong together: %w", o.For,
				o.Cert, o.Key, err)
		case o.CA != "" && !x509.NewCertPool().AppendCertsFromPEM(ca):
			return fmt.Errorf("the webhook CA file %q contains no PEM certificate: it must have the CA that signed %q", o.CA, o.Cert)
		case before.certificate != nil && before.certificate.Leaf.Equal(pair.Leaf) && bytes.Equal(before.bundle, ca):
			return nil
		}
		s.show(shown{certificate: &pair, bundle: ca})
		if before.certificate != nil {
			o.Log.Info("The "+o.For+" certificate was reloaded", "file", o.Cert, "certificateExpires", pair.Leaf.NotAfter)
		}
		if err := verify(&pair, ca); err != nil {
			o.Log.Warn("The "+o.For+" certificate is not valid, clients will reject it: replace one of the files", "file", o.Cert, "ca", o.CA,
				"error", err.Error())
		}
		return nil
	})
}

// verify checks a certificate as clients do, without its names; the life alone if there is no CA.
func verify(pair *tls.Certificate, ca []byte) error {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		roots.AddCert(pair.Leaf)
	}
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(c)
		}
	}
	_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

// inFiles returns a Source that calls load now, and whenever files may have changed. Later errors are logged as failed, each once: files
// change one after the other.
func inFiles(log *slog.Logger, paths []string, failed string, load func(*Source) error) (s *Source, err error) {
	last := ""
	s = newSource(nil, func(ctx context.Context) error {
		return filewatch.Follow(ctx, filewatch.Options{
			Directories: func() map[string]bool { return directories(paths) },
			Changed: func() time.Duration {
				text := ""
				if err := load(s); err != nil {
					text = err.Error()
				}
				if text != "" && text != last {
					log.Error(failed, "error", text)
				}
				last = text
				return 0
			},
			Degraded: func(err error) {
				log.Warn("Changes of webhook certificate files are noticed within a minute only", "error", err.Error())
			},
		})
	})
	return s, load(s)
}

// directories returns the directories of the files, before and after following symbolic links.
func directories(paths []string) map[string]bool {
	dirs := map[string]bool{}
	for _, path := range paths {
		dirs[filepath.Dir(path)] = true
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs[filepath.Dir(real)] = true
		}
	}
	return dirs
}
