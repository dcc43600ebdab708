package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// text, duration, … make the bind function of a row.
func text(p *string, def string) func(*pflag.FlagSet, string) {
	return func(fs *pflag.FlagSet, name string) { fs.StringVar(p, name, def, "") }
}

func texts(p *[]string) func(*pflag.FlagSet, string) {
	return func(fs *pflag.FlagSet, name string) { fs.StringSliceVar(p, name, nil, "") }
}

func number(p *int, def int) func(*pflag.FlagSet, string) {
	return func(fs *pflag.FlagSet, name string) { fs.IntVar(p, name, def, "") }
}

func float(p *float32, def float32) func(*pflag.FlagSet, string) {
	return func(fs *pflag.FlagSet, name string) { fs.Float32Var(p, name, def, "") }
}

func truth(p *bool, def bool) func(*pflag.FlagSet, string) {
	return func(fs *pflag.FlagSet, name string) { fs.BoolVar(p, name, def, "") }
}

func duration(p *time.Duration, def time.Duration) func(*pflag.FlagSet, string) {
	return func(fs *pflag.FlagSet, name string) { fs.DurationVar(p, name, def, "") }
}

// contextLimit is a number, or auto.
type contextLimit int

func limit(p *contextLimit) func(*pflag.FlagSet, string) {
	return func(fs *pflag.FlagSet, name string) {
		*p = hook.AutoContexts
		fs.Var(p, name, "")
	}
}

func (l *contextLimit) Type() string { return "int or auto" }

func (l *contextLimit) String() string {
	if *l == hook.AutoContexts {
		return "auto"
	}
	return strconv.Itoa(int(*l))
}

func (l *contextLimit) Set(text string) error {
	if text == "auto" {
		*l = hook.AutoContexts
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is neither auto nor a number from 0", text)
	}
	*l = contextLimit(n)
	return nil
}

// lenientBool also takes yes and no, which the variable was documented with for years.
type lenientBool bool

func (b *lenientBool) String() string { return fmt.Sprint(bool(*b)) }
func (b *lenientBool) Type() string   { return "bool" }

func (b *lenientBool) Set(text string) error {
	switch strings.ToLower(text) {
	case "1", "t", "true", "yes", "y":
		*b = true
	case "0", "f", "false", "no", "n":
		*b = false
	default:
		return fmt.Errorf("%q is not true or false", text)
	}
	return nil
}
