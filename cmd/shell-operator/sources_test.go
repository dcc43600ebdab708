package main

import (
	"io"
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// others are values of settings, by their type, that are not their defaults; two for each, so that it shows which counts.
var others = map[string][2]string{
	"string": {"first", "second"}, "int": {"17", "18"}, "float32": {"17.5", "18.5"}, "duration": {"17m0s", "18m0s"},
	"int or auto": {"17", "auto"}, "stringSlice": {"[a,b]", "[c]"},
}

// special are values of settings that not every text of their type will do for.
var special = map[string][2]string{
	"log-type": {"json", "color"}, "log-level": {"debug", "error"}, "validating-webhook-failure-policy": {"Ignore", "Fail"},
	"webhook-cert-manager": {"a/b", "c/d"},
	"listen-port":          {"17", "18"}, "validating-webhook-listen-port": {"17", "18"}, "conversion-webhook-listen-port": {"17", "18"},
	"http-listen-port":       {"17", "18"},
	"validating-webhook-url": {"https://a:1", "https://b:1"},
	"conversion-webhook-url": {"https://a:1", "https://b:1"},
	"retry-min-delay":        {"2s", "3s"}, "retry-max-delay": {"33m0s", "34m0s"}, "v0-existing-objects": {"skip", "add"},
	"webhook-exclude-namespaces": {"[a,b]", "[c]"},
	"kubectl":                    {"process", "auto"}, "hook-home": {"own", "inherit"},
	"record": {"all", "none"},
}

// with are the variables that a setting needs beside itself.
var with = map[string][]string{
	"http-server-cert": {"SHELL_OPERATOR_HTTP_SERVER_KEY=key"}, "http-server-key": {"SHELL_OPERATOR_HTTP_SERVER_CERT=cert"},
}

// TestEverySetting sets each setting by its flag before and after the command, by its variable, and by both: the flag wins over the
// variable, the variable over the default.
func TestEverySetting(t *testing.T) {
	for _, row := range newSettings(nil).list {
		t.Run(row.flag, func(t *testing.T) {
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			newSettings(nil).addFlags(fs)
			f := fs.Lookup(row.flag)
			values, ok := special[row.flag]
			if !ok {
				values, ok = others[f.Value.Type()]
			}
			if f.Value.Type() == "bool" {
				values, ok = [2]string{"true", "false"}, true
				if f.DefValue == "true" {
					values = [2]string{"false", "true"}
				}
			}
			if !ok {
				t.Fatalf("no values for the type %s: add some", f.Value.Type())
			}
			first, second := values[0], values[1]
			for _, c := range []struct {
				what           string
				flag, variable string
				after          bool
				want           string
			}{
				{what: "none", want: f.DefValue},
				{what: "flag", flag: first, want: first},
				{what: "flag after the command", flag: first, after: true, want: first},
				{what: "variable", variable: first, want: first},
				{what: "flag and variable", flag: first, variable: second, want: first},
			} {
				if got := given(t, row, c.flag, c.variable, c.after); got != c.want {
					t.Errorf("%s: it is %s, want %s", c.what, got, c.want)
				}
			}
		})
	}
}

// inFlag is the value of a flag as it is given: pflag shows lists in brackets.
func inFlag(value string) string {
	if len(value) > 1 && value[0] == '[' {
		return value[1 : len(value)-1]
	}
	return value
}

// given runs a command with a setting by its flag or variable, empty for none, and returns its value.
func given(t *testing.T, row setting, flag, variable string, after bool) string {
	t.Helper()
	var env []string
	if flag+variable != "" {
		env = slices.Clone(with[row.flag])
	}
	if variable != "" {
		env = append(env, row.env+"="+inFlag(variable))
	}
	args := []string{"version"}
	if flag != "" {
		one := "--" + row.flag + "=" + inFlag(flag)
		if args = append(args, one); !after {
			args = []string{one, "version"}
		}
	}
	root := newRootCommand(newSettings(env), io.Discard, io.Discard)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Fatalf("flag %q, variable %q: %v", flag, variable, err)
	}
	return root.PersistentFlags().Lookup(row.flag).Value.String()
}
