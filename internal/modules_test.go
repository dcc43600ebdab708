package internal

import (
	"os"
	"regexp"
	"testing"
)

var requirement = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`)

// TestModulesAgree keeps the versions of dependencies equal in the modules that make test-cluster builds: they share most packages, which
// are compiled once then. gojq's command needs a version of its own.
func TestModulesAgree(t *testing.T) {
	first, in := map[string]string{"github.com/itchyny/gojq": "", "github.com/itchyny/timefmt-go": ""}, map[string]string{}
	for _, mod := range []string{"go.mod", "kubectl/go.mod", "testcluster/go.mod", "tools/go.mod"} {
		text, err := os.ReadFile("../" + mod)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range requirement.FindAllStringSubmatch(string(text), -1) {
			module, version := found[1], found[2]
			if other, known := first[module]; !known && version != "v0.0.0" { // which is replaced
				first[module], in[module] = version, mod
			} else if other != "" && other != version && version != "v0.0.0" {
				t.Errorf("%s requires %s %s, and %s %s: go get the newer one in both", mod, module, version, in[module], other)
			}
		}
	}
}
