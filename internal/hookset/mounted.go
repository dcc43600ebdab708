package hookset

import (
	"bufio"
	"os"
	"strings"
)

// longestLine bounds the search for the first line of a file; the kernel reads no more either.
const longestLine = 256

// mountedScript returns how to run a script that kubelet has put into a volume: from its line "#!", split as the kernel
// does it, into a program and at most one argument. It returns nil for all other files.
//
// Files of a ConfigMap have no execute permission unless the volume gives them one, and are links through "..data".
func mountedScript(path string) []string {
	if target, err := os.Readlink(path); err != nil || !strings.HasPrefix(target, "..data/") {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	line, _ := bufio.NewReaderSize(file, longestLine).ReadSlice('\n') // a file of one line has no end of line
	return interpreter(string(line))
}

// interpreter reads a line "#!".
func interpreter(line string) []string {
	text, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return nil
	}
	program, argument, _ := strings.Cut(strings.Trim(text, " \t\r\n"), " ")
	if program == "" {
		return nil
	}
	if argument = strings.Trim(argument, " \t"); argument == "" {
		return []string{program}
	}
	return []string{program, argument}
}
