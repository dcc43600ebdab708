package lint

import (
	"context"
	"strconv"
	"strings"

	"github.com/shell-operator/shell-operator/internal/script"
)

// pythonCheck compiles a file and writes nothing. Its output is line, column and message, in lines.
const pythonCheck = `
import sys
try:
    compile(open(sys.argv[1], "rb").read(), sys.argv[1], "exec", dont_inherit=True)
except SyntaxError as e:
    print(e.lineno or 0, e.offset or 0, e.msg, sep="\n", file=sys.stderr)
    sys.exit(1)
except ValueError as e:
    print(0, 0, e, sep="\n", file=sys.stderr)
    sys.exit(1)
`

// Python finds the first mistake in the syntax of a Python script, if Python is there. It finds nothing in other files.
func Python(ctx context.Context, s script.Source, file string, check Check) []Finding {
	if !s.IsPython() {
		return nil
	}
	stderr, there, err := check(ctx, "python3", "-I", "-W", "ignore", "-c", pythonCheck, file)
	if !there || err == nil {
		return nil
	}
	parts := strings.SplitN(strings.TrimSpace(string(stderr)), "\n", 3)
	if len(parts) < 3 {
		return []Finding{finding(s, 0, 0, Warning, "python3 could not check it: "+strings.Join(parts, " "), "")}
	}
	line, _ := strconv.Atoi(parts[0])
	column, _ := strconv.Atoi(parts[1])
	found := finding(s, line, max(column, 0), Error, parts[2], "")
	found.Code = SyntaxCode
	return []Finding{found}
}
