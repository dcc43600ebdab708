package cert

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// Token is a text of 64 hexadecimal digits that belongs to a path: its HMAC-SHA256 with the secret of the paths. Sources without a secret
// have none.
func (s *Source) Token(path string) string { return token(s.now().secrets[0], path) }

// Valid reports whether a token belongs to a path, with the secret or the one before.
func (s *Source) Valid(path, text string) bool {
	valid := false
	for _, secret := range s.now().secrets {
		valid = secret != "" && hmac.Equal([]byte(text), []byte(token(secret, path))) || valid
	}
	return valid
}

func token(secret, path string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(path))
	return hex.EncodeToString(mac.Sum(nil))
}

// shortestSecret bounds what can be guessed.
const shortestSecret = 32

// PathsOfFile returns a Source of paths only, whose secret is the first line of a file, and the one before its second line.
func PathsOfFile(path string, log *slog.Logger) (*Source, error) {
	return inFiles(log, []string{path}, "The secret of webhook paths cannot be re-read, the last one stays in use", func(s *Source) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("cannot read the secret of webhook paths: %w", err)
		}
		lines := append(strings.Fields(string(text)), "")
		if len(lines[0]) < shortestSecret || len(lines) > 2 && len(lines[1]) < shortestSecret {
			return fmt.Errorf("the secret of webhook paths in %q has less than %d characters: write one, as by openssl rand -hex 32", path,
				shortestSecret)
		}
		s.show(shown{secrets: [2]string{lines[0], lines[1]}})
		return nil
	})
}
