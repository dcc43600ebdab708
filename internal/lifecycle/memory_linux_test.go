package lifecycle

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// TestReleaseMemory: fewer pages of the program's file are resident, and it goes on.
func TestReleaseMemory(t *testing.T) {
	before := residentFile(t)
	releaseMemory()
	if after := residentFile(t); after > before/2 {
		t.Errorf("%d KiB of the program's file are resident, before it were %d", after, before)
	}
}

func residentFile(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, found, _ := bytes.Cut(status, []byte("\nRssFile:"))
	if _, err := fmt.Fscan(bytes.NewReader(found), &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}
