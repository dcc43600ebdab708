// Program kubectl, absent, is in the place of the complete kubectl in make test, which does not build that. Calls that the trimmed one
// passes on fail.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintf(os.Stderr, "kubectl %q: the trimmed kubectl does not contain this, and make test builds no other: use a file, or "+
		"let the script need kubectl\n", os.Args[1:])
	os.Exit(127)
}
