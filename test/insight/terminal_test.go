package insight

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onTerminal runs a command whose output is a terminal, 200 columns wide.
func (a *asker) onTerminal(t *testing.T, line string) string {
	t.Helper()
	outer, inner := terminal(t)
	cmd := a.command(line)
	cmd.Stdout = inner
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inner.Close()
	var out bytes.Buffer
	_, _ = io.Copy(&out, outer) // it ends with an error when the inner end is closed
	outer.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return "$ shell-operator " + line + "\n" + a.normalize(sorted(line, strings.ReplaceAll(out.String(), "\r\n", "\n"))) + "\n"
}

func terminal(t *testing.T) (outer, inner *os.File) {
	t.Helper()
	outer, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	fd := int(outer.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	inner, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200}); err != nil {
		t.Fatal(err)
	}
	return outer, inner
}
