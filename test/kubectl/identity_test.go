package kubectl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestIdentity: the kubectl that the shell finds without the trimmed one is executed unless it is the file that the variable names.
func TestIdentity(t *testing.T) {
	testenv.Require(t) // for the binaries; there are no requests
	trimmed := bin(t, "kubectl-trimmed")
	for _, test := range []struct {
		name, script string
		// ran are the programs that ran, in order; the trimmed kubectl serves by itself.
		ran    string
		status int
	}{
		{"served", `PATH=$TRIMMED:$A; kubectl version --client`, "served", 0},
		{"by its path", `PATH=$A; $TRIMMED/kubectl version --client`, "served", 0},
		{"another command", `PATH=$TRIMMED:$A; kubectl explain cm`, "a", 0},
		{"status of the other one", `PATH=$TRIMMED:$A; kubectl fail`, "a", 7},
		{"another file first in PATH", `PATH=$TRIMMED:$B:$A; kubectl version --client`, "b", 0},
		{"another file in front of all", `PATH=$B:$TRIMMED:$A; kubectl version --client`, "b", 0},
		{"a relative directory", `cd $B; PATH=$TRIMMED:.:$A; kubectl version --client`, "b", 0},
		{"an empty directory", `cd $B; PATH=$TRIMMED::$A; kubectl version --client`, "b", 0},
		{"the same directory twice", `PATH=$TRIMMED:$TRIMMED:$A; kubectl version --client`, "served", 0},
		{"a link to the trimmed kubectl", `ln -s $TRIMMED $B/linked; PATH=$B/linked:$TRIMMED:$A; kubectl explain cm`, "a", 0},
		{"no variable", `unset SHELL_OPERATOR_KUBECTL_FILE; PATH=$TRIMMED:$A; kubectl version --client`, "a", 0},
		{"another variable", `SHELL_OPERATOR_KUBECTL_FILE=1,2,3,4; PATH=$TRIMMED:$A; kubectl version --client`, "a", 0},
		{"replaced", `cp $A/kubectl $A/new; mv $A/new $A/kubectl; PATH=$TRIMMED:$A; kubectl version --client`, "a", 0},
		{"written to", `printf '\n' >>$A/kubectl; PATH=$TRIMMED:$A; kubectl version --client`, "a", 0},
		{"not executable", `chmod -x $A/kubectl; PATH=$TRIMMED:$A:$B; kubectl version --client`, "b", 0},
		{"none", `PATH=$TRIMMED; kubectl explain cm`, "", 127},
		{"no PATH", `unset PATH; $TRIMMED/kubectl explain cm`, "", 127},
		{"not a program", `echo '#!/missing' >$A/kubectl; PATH=$TRIMMED:$A; kubectl explain cm`, "", 126},
		{"a script without an interpreter", `printf 'echo c >>$RAN' >$A/kubectl; PATH=$TRIMMED:$A; kubectl explain cm`, "c", 0},
		// What kubectl starts finds the complete one, and does not get the variable.
		{"a plugin that calls kubectl", `PATH=$TRIMMED:$A:$PLUGIN:/usr/bin:/bin; kubectl hello`, "a plugin a", 0},
		{"the environment of the other one", `PATH=$TRIMMED:$A:/x; kubectl environment`, "a PATH=" + "A:/x ", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			ran := filepath.Join(dir, "ran")
			for name, text := range map[string]string{
				"a/kubectl": `case $1 in
fail) exit 7 ;;
hello) /bin/sh "$PLUGIN/kubectl-hello" ;;
environment) echo "PATH=$PATH $SHELL_OPERATOR_KUBECTL_FILE$SHELL_OPERATOR_KUBECTL_CALLS" >>$RAN ;;
esac`,
				"b/kubectl":            "",
				"plugin/kubectl-hello": "echo plugin >>$RAN; kubectl explain cm",
			} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				first := fmt.Sprintf("#!/bin/sh\necho %s >>$RAN\n", filepath.Base(filepath.Dir(path)))
				if strings.HasPrefix(name, "plugin") {
					first = "#!/bin/sh\n"
				}
				if err := os.WriteFile(path, []byte(first+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			status, output := shell(t, test.script, "TRIMMED="+trimmed, "A="+dir+"/a", "B="+dir+"/b", "PLUGIN="+dir+"/plugin", "RAN="+ran,
				"PATH=/usr/bin:/bin", identity(t, dir+"/a/kubectl"), "SHELL_OPERATOR_KUBECTL_CALLS="+dir+"/calls")
			text, _ := os.ReadFile(ran)
			got := strings.Join(strings.Fields(strings.ReplaceAll(string(text), dir+"/a", "A")), " ")
			if strings.HasPrefix(output, "Client Version: v1.") {
				got = strings.TrimSpace("served " + got)
			}
			if got != strings.TrimSpace(test.ran) || status != test.status {
				t.Errorf("ran %q with status %d, not %q with %d\n%s", got, status, test.ran, test.status, output)
			}
		})
	}
}
