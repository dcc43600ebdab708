package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
)

// A run that is a fork has the limit of CPU time from its start, and a hard one, which its worker has not; a run without the limit has none.
func TestCPUTimeOfForks(t *testing.T) {
	if !process.LimitsProcesses {
		t.Skip("no limits here")
	}
	const python = `import resource; print(*resource.getrlimit(resource.RLIMIT_CPU))`
	for script, command := range map[string]string{
		strings.NewReplacer("PREPARATION", "", "OPTIONS", "").Replace(pythonHook): python,
		strings.NewReplacer("PREPARATION", "").Replace(bashHook):                  `echo "$(ulimit -St) $(ulimit -Ht)"`,
	} {
		b, run := libraryBench(t, script)
		if got := run(command); strings.Join(got.stdout, "|") != "-1 -1" && strings.Join(got.stdout, "|") != "unlimited unlimited" {
			t.Errorf("without a limit: %s\n%s", got, b.log)
		}
		b.limits = process.Limits{CPUTime: 7 * time.Second, OpenFiles: 100}
		b.files++
		if got := run(command); got.err != nil || strings.Join(got.stdout, "|") != "7 12" {
			t.Errorf("with a limit: %s\n%s", got, b.log)
		}
	}
}
