package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
)

// runFlags are the flags of run that are keys of test cases, too.
type runFlags struct{ *pflag.FlagSet }

func newRunFlags() runFlags {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringArray("objects", nil, "file or directory with the objects of a simulated cluster (repeatable)")
	f.StringArray("event", nil,
		"event TYPE=REF: Added, Modified, Deleted, Deleting or Requeue of a manifest, KIND/NAME or KIND/NAMESPACE/NAME (repeatable)")
	f.Bool("together", false, "queue all events before the first run")
	f.Int("attempts", 1, "attempts of a run in all, without delays")
	f.String("tick", "", "run for a schedule, by its name or crontab")
	f.Bool("startup", false, "run for onStartup")
	f.String("review", "", "admission request OPERATION=FILE; UPDATE=OLD,NEW")
	f.String("as", "", "user of the review or HTTP request")
	f.StringArray("as-group", nil, "group of this user (repeatable)")
	f.String("convert", "", "conversion VERSION=FILE")
	f.String("http", "", `HTTP request, for instance "POST /things"`)
	f.String("body", "", "file with the body of the HTTP request")
	f.StringArray("header", nil, `header of the HTTP request, "Name: value" (repeatable)`)
	f.String("binding", "", "only events of the bindings with this name")
	f.StringArray("env", nil, "variable NAME=VALUE of a simulated run (repeatable)")
	f.StringArray("stub", nil, "program NAME=FILE, first in PATH (repeatable)")
	f.String("field-validation", "", "unknown and mistyped fields of built-in kinds: Strict (an error, the default) or Warn (a note)")
	return runFlags{f}
}

// input returns the flags as a case of a test file. Paths are relative to the working directory.
func (f runFlags) input(from string) (testfile.Input, error) {
	here, err := filepath.Abs(".")
	if err != nil {
		return testfile.Input{}, err
	}
	keys := map[string]any{}
	switch from {
	case "":
	case "-":
		keys["from"] = "/dev/stdin"
	default:
		keys["from"] = from
	}
	f.VisitAll(func(flag *pflag.Flag) {
		if text := flag.Value.String(); !flag.Changed || err != nil || text == "" || text == "false" {
			return
		}
		key := flag.Name
		if key == "field-validation" {
			key = "fieldValidation"
		}
		keys[key], err = valueOf(flag)
	})
	if err != nil {
		return testfile.Input{}, err
	}
	return testfile.FromFlags(here, keys)
}

// valueOf returns the value of a flag in the form of its key in a test file.
func valueOf(flag *pflag.Flag) (any, error) {
	texts := []string{flag.Value.String()}
	list, isList := flag.Value.(pflag.SliceValue)
	if isList {
		texts = list.GetSlice()
	}
	form := map[string]string{"event": "TYPE=REF", "review": "OPERATION=FILE", "convert": "VERSION=FILE", "env": "NAME=VALUE",
		"stub": "NAME=VALUE"}[flag.Name]
	switch {
	case form != "":
	case isList:
		return texts, nil
	case flag.Value.Type() == "string":
		return texts[0], nil
	default:
		return json.RawMessage(texts[0]), nil
	}
	all, each := map[string]any{}, []any{}
	for _, text := range texts {
		before, after, ok := strings.Cut(text, "=")
		if !ok || before == "" {
			return nil, fmt.Errorf("--%s %q: write %s", flag.Name, text, form)
		}
		all[before] = after
		if flag.Name == "review" && strings.Contains(after, ",") {
			all[before] = strings.Split(after, ",")
		}
		each = append(each, map[string]string{before: after})
	}
	if flag.Name == "event" {
		return each, nil
	}
	return all, nil
}
