// Command htpasswd stands in for Apache's program of that name, for tests and the demo on machines without it. It
// knows the one thing that the example hooks ask for: to print the line of one user.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

const usage = `Usage:
  htpasswd -nbB USER PASSWORD   print USER:HASH, with bcrypt
  htpasswd -niB USER            the same with the password on stdin
`

func main() {
	user, password, ok := arguments(os.Args[1:])
	if !ok {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), 5)
	if err != nil {
		fmt.Fprintln(os.Stderr, "htpasswd:", err)
		os.Exit(1)
	}
	// Apache writes the same format under the name that PHP gave it.
	fmt.Printf("%s:%s\n\n", user, strings.Replace(string(hash), "$2a$", "$2y$", 1))
}

func arguments(args []string) (user, password string, ok bool) {
	switch {
	case len(args) == 3 && args[0] == "-nbB":
		return args[1], args[2], true
	case len(args) == 2 && args[0] == "-niB":
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return args[1], strings.TrimSuffix(line, "\n"), err == nil || line != ""
	}
	return "", "", false
}
