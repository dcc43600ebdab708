package lifecycle

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseMemory gives back what only a start needs: garbage, and the pages of the program's own file. What is used again is read again,
// nearly always from the page cache. Saves 16 of 40 MiB of an idle operator.
func releaseMemory() {
	debug.FreeOSMemory()
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	type mapping struct {
		from, to uintptr
		clean    bool
	}
	var files []mapping
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		m, access, anonymous := mapping{}, "", 1
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s", &m.from, &m.to, &access); n == 3 {
			m.clean = access[1] == '-' && strings.Contains(lines.Text(), " /")
			files = append(files, m)
		} else if n, _ := fmt.Sscanf(lines.Text(), "Anonymous: %d", &anonymous); n == 1 && anonymous > 0 {
			files[len(files)-1].clean = false // written once, such as relocations
		}
	}
	for _, m := range files {
		if m.clean {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
		}
	}
}
