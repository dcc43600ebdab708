package lint

import (
	"bytes"
	"fmt"

	"github.com/shell-operator/shell-operator/internal/script"
)

// Start finds what prevents a file from being executed. Exists reports whether a program exists: by its path, or, without
// slashes, by its name in PATH. A hook without such errors can be called.
func Start(s script.Source, exists func(program string) bool) []Finding {
	program, isScript := s.Interpreter()
	switch {
	case len(s.Text) == 0:
		return []Finding{finding(s, 0, 0, Error, "the file is empty", "write a hook, or remove it")}
	case bytes.HasPrefix(s.Text, []byte(script.ByteOrderMark)):
		return []Finding{finding(s, 1, 1, Error, "the file begins with a byte order mark, so the system does not see #!",
			`remove it: sed -i '1s/^\xEF\xBB\xBF//' `+s.Path)}
	case !isScript && s.IsBinary():
		return nil
	case !isScript:
		return []Finding{finding(s, 1, 1, Error, "the first line does not say what runs the file",
			"begin it with a line such as #!/usr/bin/env bash")}
	case bytes.HasSuffix(s.FirstLine(), []byte("\r")):
		return []Finding{finding(s, 1, len(s.FirstLine()), Error,
			"the file has Windows line ends: the system looks for an interpreter whose name ends in a carriage return",
			`convert it: sed -i 's/\r$//' `+s.Path)}
	case program.Path == "":
		return []Finding{finding(s, 1, 1, Error, "#! is followed by no interpreter", "write for instance #!/usr/bin/env bash")}
	case !exists(program.Path):
		return []Finding{finding(s, 1, 3, Error, fmt.Sprintf("its interpreter %q does not exist here", program.Path),
			"install it, or change the first line")}
	case program.ViaEnv && !exists(program.Name):
		return []Finding{finding(s, 1, 3, Error, fmt.Sprintf("env does not find %q in PATH", program.Name),
			"install it, or change the first line")}
	}
	return nil
}
