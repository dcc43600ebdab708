package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
)

// runFlags are the flags of run that are keys of test cases, too.
type runFlags struct {
	objects, events, groups, headers, env, stubs []string
	together, startup                            bool
	attempts                                     int
	tick, review, as, convert, http, body        string
	binding, validation                          string
}

// inputFlags are their names.
var inputFlags = []string{
	"objects", "event", "together", "attempts", "tick", "startup", "review", "as", "as-group", "convert", "http", "body", "header", "binding",
	"env", "stub", "field-validation",
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.objects, "objects", nil, "file or directory with the objects of a simulated cluster (repeatable)")
	flags.StringArrayVar(&f.events, "event", nil,
		"event TYPE=REF: Added, Modified, Deleted, Deleting or Requeue of a manifest, KIND/NAME or KIND/NAMESPACE/NAME (repeatable)")
	flags.BoolVar(&f.together, "together", false, "queue all events before the first run")
	flags.IntVar(&f.attempts, "attempts", 1, "attempts of a run in all, without delays")
	flags.StringVar(&f.tick, "tick", "", "run for a schedule, by its name or crontab")
	flags.BoolVar(&f.startup, "startup", false, "run for onStartup")
	flags.StringVar(&f.review, "review", "", "admission request OPERATION=FILE; UPDATE=OLD,NEW")
	flags.StringVar(&f.as, "as", "", "user of the review or HTTP request")
	flags.StringArrayVar(&f.groups, "as-group", nil, "group of this user (repeatable)")
	flags.StringVar(&f.convert, "convert", "", "conversion VERSION=FILE")
	flags.StringVar(&f.http, "http", "", `HTTP request, for instance "POST /things"`)
	flags.StringVar(&f.body, "body", "", "file with the body of the HTTP request")
	flags.StringArrayVar(&f.headers, "header", nil, `header of the HTTP request, "Name: value" (repeatable)`)
	flags.StringVar(&f.binding, "binding", "", "only events of the bindings with this name")
	flags.StringArrayVar(&f.env, "env", nil, "variable NAME=VALUE of a simulated run (repeatable)")
	flags.StringArrayVar(&f.stubs, "stub", nil, "program NAME=FILE, first in PATH (repeatable)")
	flags.StringVar(&f.validation, "field-validation", "",
		"unknown and mistyped fields of built-in kinds: Strict (an error, the default) or Warn (a note)")
	for _, name := range []string{"objects", "body"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

// used reports whether a simulation is asked for.
func (f *runFlags) used(cmd *cobra.Command) bool {
	return slices.ContainsFunc(inputFlags, func(name string) bool { return cmd.Flags().Changed(name) })
}

// input returns the flags as a case of a test file. Paths are relative to the working directory.
func (f *runFlags) input(from string) (testfile.Input, error) {
	here, err := filepath.Abs(".")
	if err != nil {
		return testfile.Input{}, err
	}
	keys := map[string]any{}
	add := func(key string, value any, set bool) {
		if set {
			keys[key] = value
		}
	}
	add("objects", f.objects, len(f.objects) > 0)
	add("together", true, f.together)
	add("attempts", f.attempts, f.attempts != 1)
	add("tick", f.tick, f.tick != "")
	add("startup", true, f.startup)
	add("as", f.as, f.as != "")
	add("as-group", f.groups, len(f.groups) > 0)
	add("http", f.http, f.http != "")
	add("body", f.body, f.body != "")
	add("header", f.headers, len(f.headers) > 0)
	add("binding", f.binding, f.binding != "")
	add("fieldValidation", f.validation, f.validation != "")
	add("from", from, from != "")
	var events []map[string]string
	for _, text := range f.events {
		typ, ref, err := pair("event", "TYPE=REF", text)
		if err != nil {
			return testfile.Input{}, err
		}
		events = append(events, map[string]string{typ: ref})
	}
	add("event", events, len(events) > 0)
	if f.review != "" {
		operation, file, err := pair("review", "OPERATION=FILE", f.review)
		if err != nil {
			return testfile.Input{}, err
		}
		keys["review"] = map[string][]string{operation: strings.Split(file, ",")}
	}
	if f.convert != "" {
		version, file, err := pair("convert", "VERSION=FILE", f.convert)
		if err != nil {
			return testfile.Input{}, err
		}
		keys["convert"] = map[string]string{version: file}
	}
	for key, list := range map[string][]string{"env": f.env, "stub": f.stubs} {
		values := map[string]string{}
		for _, text := range list {
			name, value, err := pair(key, "NAME=VALUE", text)
			if err != nil {
				return testfile.Input{}, err
			}
			values[name] = value
		}
		add(key, values, len(values) > 0)
	}
	in, err := testfile.FromFlags(here, keys)
	if err != nil {
		return in, fmt.Errorf("%w", err)
	}
	return in, nil
}

// pair splits the value of a flag.
func pair(flag, form, text string) (string, string, error) {
	before, after, ok := strings.Cut(text, "=")
	if !ok || before == "" {
		return "", "", fmt.Errorf("--%s %q: write %s", flag, text, form)
	}
	return before, after, nil
}
