package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shell-operator/shell-operator/internal/test/pages"
)

const reference = "../../docs/reference/command-line.md"

// TestReference keeps the table of flags in the documentation equal to the table in the code.
func TestReference(t *testing.T) {
	pages.Part{Page: reference, Name: "flags", Package: "./cmd/shell-operator"}.Check(t, flagsTable())
}

// flagsTable renders the flags.
func flagsTable() string {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	s := newSettings(nil)
	s.addFlags(fs)
	var b strings.Builder
	b.WriteString("\n| flag | variable | type | default | meaning |\n|---|---|---|---|---|\n")
	for _, row := range s.list {
		f := fs.Lookup(row.flag)
		def := f.DefValue
		if def == "" || def == "[]" {
			def = "—"
		} else {
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s | %s |\n", row.flag, row.env, typeName(f), def, strings.ReplaceAll(row.usage, "|", `\|`))
	}
	return b.String() + "\n"
}

// TestReferenceOfCommands keeps the help of the commands for a running operator equal to the documentation.
func TestReferenceOfCommands(t *testing.T) {
	var want strings.Builder
	for _, c := range newAskCommands(newSettings(nil), io.Discard) {
		root := &cobra.Command{Use: "shell-operator"}
		root.AddCommand(c)
		describeCommand(&want, c)
	}
	pages.Part{Page: reference, Name: "commands", Package: "./cmd/shell-operator"}.Check(t, want.String())
}

// TestOnDuty: at most two commands find or end what is broken, and each exists.
func TestOnDuty(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/act-on-a-running-operator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### On duty\n")
	section, _, _ = strings.Cut(section, "\n#")
	commands := regexp.MustCompile("`shell-operator ([^`]*)`")
	rows := 0
	for row := range strings.Lines(section) {
		found := commands.FindAllStringSubmatch(row, -1)
		if len(found) == 0 {
			continue
		}
		rows++
		if len(found) > 2 {
			t.Errorf("%d commands: %s", len(found), row)
		}
		for _, m := range found {
			c, rest, err := newRootCommand(newSettings(nil), io.Discard, io.Discard).Find(strings.Fields(m[1]))
			if err == nil {
				err = c.ParseFlags(rest)
			}
			if err == nil && c.Args != nil {
				err = c.Args(c, c.Flags().Args())
			}
			if err != nil || !c.Runnable() {
				t.Errorf("%s: %v", m[0], err)
			}
		}
	}
	if rows < 12 {
		t.Errorf("%d rows", rows)
	}
}

// describeCommand writes what --help says, for a command that does something, and for those below it.
func describeCommand(b *strings.Builder, c *cobra.Command) {
	if c.Example != "" {
		fmt.Fprintf(b, "\n### %s\n\n", strings.TrimPrefix(c.CommandPath(), "shell-operator "))
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		b.WriteString(text + "\n\n```\n" + c.UseLine() + "\n\n")
		for line := range strings.Lines(c.Example + "\n") {
			b.WriteString(strings.TrimPrefix(line, "  "))
		}
		b.WriteString("```\n\n| flag | meaning |\n|---|---|\n")
		row := func(f *pflag.Flag) {
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			usage := f.Usage
			if f.DefValue != "" && f.DefValue != "false" {
				usage += " (default `" + f.DefValue + "`)"
			}
			fmt.Fprintf(b, "| `%s` | %s |\n", name, usage)
		}
		c.LocalFlags().VisitAll(row)
		c.InheritedFlags().VisitAll(row)
	}
	for _, below := range c.Commands() {
		describeCommand(b, below)
	}
	if c.Parent().Name() == "shell-operator" {
		b.WriteString("\n")
	}
}

func typeName(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "stringSlice":
		return "list"
	case "float32":
		return "number"
	case "int or auto":
		return "integer or `auto`"
	case "int":
		return "integer"
	case "bool":
		return "boolean"
	}
	return f.Value.Type()
}
