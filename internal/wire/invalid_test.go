package wire

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test"
)

// Files of a careless hook, of 31 MiB each, are rejected in little memory: neither errors nor valid operations beside them are kept.
func TestInvalidFilesInMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // as the program sets it
	size := 5 << 20                                  // above the limit of a document in YAML
	if test.Long() {
		size = 31 << 20
	}
	filters := jq.NewCompiler(jq.Options{})
	metrics := func(file []byte) error {
		_, _, err := ParseMetrics(file)
		return err
	}
	patches := func(file []byte) error {
		_, err := read(file, filters)
		return err
	}
	const valid = `{"operation":"Delete","kind":"a","name":"b"}` + "\n"
	for name, row := range map[string]struct {
		parse             func([]byte) error
		begin, unit, want string
	}{
		"numbers as metrics":              {metrics, "", "1\n", "operation 1 must be an object"},
		"metrics, one of them valid":      {metrics, `{"name":"a","set":1}`, `{"name":"a","action":"set"}`, "more"},
		"empty operations":                {patches, "", "{}\n", "and the rest of the file was not read"},
		"operations, one of them valid":   {patches, valid, `{"operation":"x","kind":"abcdefghijklmnopqrstuvw"}`, "more"},
		"valid ones between them":         {patches, "", "{}\n" + valid, "more"},
		"operations in YAML":              {patches, "", "---\noperation: x\n", "and the rest of the file was not read"},
		"large documents of YAML":         {patches, "", "---\n" + strings.Repeat("a: 1\n", 800_000), "300000 separators"},
		"documents of 500 KB":             {patches, "", "---\n" + strings.Repeat("a: 1\n", 100_000), "operation is required"},
		"a list in YAML":                  {patches, "operation: Create\nobject:\n", "- a\n", "more than 4 MiB"},
		"a string with YAML in documents": {patches, `{"operation":"Create","object":"`, `[[[,`, "cannot be read as JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			file := []byte(row.begin + strings.Repeat(row.unit, size/len(row.unit)))
			var peak atomic.Uint64
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for tick := time.NewTicker(5 * time.Millisecond); ; {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak.Store(max(peak.Load(), m.HeapInuse))
					select {
					case <-tick.C:
					case <-stop:
						tick.Stop()
						return
					}
				}
			}()
			err := row.parse(file)
			close(stop)
			<-stopped
			if err == nil || !strings.Contains(err.Error(), row.want) || len(err.Error()) > 32<<10 {
				t.Errorf("got %.1000v, want %q", err, row.want)
			}
			if t.Logf("%d MiB", peak.Load()>>20); peak.Load() > 200<<20 {
				t.Errorf("the file took %d MiB", peak.Load()>>20)
			}
			runtime.GC()
		})
	}
}
