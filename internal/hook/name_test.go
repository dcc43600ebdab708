package hook

import (
	"os/exec"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for text, valid := range map[string]bool{
		"sites.sh": true, "dir/001-pods.py": true, "Größe_1": true,
		"": false, "../x": false, "/x": false, "a//b": false, "-x": false, "x y": false, "x;y": false, "x'y": false, "x\ny": false, "$(x)": false,
		strings.Repeat("x", 300): false,
	} {
		if IsName(text) != valid {
			t.Errorf("%q: %t", text, !valid)
		}
		out, err := exec.Command("sh", "-c", "printf %s "+Word(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q is %q for a shell: %v", text, out, err)
		}
	}
}
