package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// complete sets the flags that are not on the command line from the environment, and validates all of them.
func (s *settings) complete(fs *pflag.FlagSet) error {
	// Every command checks all settings.
	if fs.Lookup(s.list[0].flag) == nil {
		fs = pflag.NewFlagSet("", pflag.ContinueOnError)
		s.addFlags(fs)
	}
	// A value that a flag overrides is only checked: on flags that are discarded, because some values cannot be taken back.
	spare := pflag.NewFlagSet("", pflag.ContinueOnError)
	newSettings(nil).addFlags(spare)
	var errs []error
	for _, row := range s.list {
		value := s.env[row.env]
		if value == "" {
			continue
		}
		to, f := fs, fs.Lookup(row.flag)
		if f.Changed {
			to = spare
		}
		if f.Value.Type() == "stringSlice" {
			// Older versions had one item in a line.
			value = strings.ReplaceAll(strings.TrimSpace(value), "\n", ",")
		}
		if err := to.Set(row.flag, value); err != nil {
			errs = append(errs, fmt.Errorf("configuration error: %s=%q is not %s", row.env, value,
				cmp.Or(typeWords[f.Value.Type()], "a "+f.Value.Type())))
		}
	}
	s.debugSocketChosen = fs.Changed("debug-unix-socket")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.check()
}

// typeWords are the types of flags in words.
var typeWords = map[string]string{
	"bool": "true or false", "duration": `a duration, such as "300ms", "3s" or "1m30s"`, "float32": "a number", "stringSlice": "a list",
	"int": "a whole number", "int32": "a whole number", "int or auto": "a whole number or auto",
}
