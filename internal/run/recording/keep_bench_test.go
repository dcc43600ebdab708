package recording

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// BenchmarkKeep records one small failed run after the other.
func BenchmarkKeep(b *testing.B) {
	dir := b.TempDir()
	r, err := New(Options{Dir: filepath.Join(dir, "recordings"), Filters: jq.NewCompiler(jq.Options{}),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(dir, "contexts")
	contexts := `[{"binding":"kubernetes","type":"Event","watchEvent":"Added","object":{"apiVersion":"v1","kind":"ConfigMap",` +
		`"metadata":{"name":"object-1"},"data":{"a":"` + strconv.Itoa(1<<40) + `"}}}]`
	if err := os.WriteFile(path, []byte(contexts), 0o600); err != nil {
		b.Fatal(err)
	}
	h := &hook.Hook{Name: "a.sh"}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		r.keepRun(Run{Hook: h, ID: strconv.Itoa(n) + "-1", Contexts: path, HookFailed: true, Exit: "exit status 1",
			Error: "a.sh FAILED", Output: "cannot reach the database\n"})
	}
}
