package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/debug"
)

// addRouteCommands makes the commands of routes: below the commands that are there, below those that topics name, or as new ones.
func addRouteCommands(parents map[string]*cobra.Command, client func(name string) *asking) {
	topics := app.Topics()
	for _, t := range topics {
		if names := strings.Fields(t.Name); len(names) > 0 {
			parents[names[0]] = &cobra.Command{Use: names[0], Aliases: names[1:], Short: t.About}
		}
	}
	for _, t := range topics {
		for _, r := range t.Routes {
			if r.Command == nil {
				continue
			}
			name, use, _ := strings.Cut(r.Command.Use, " ")
			parent, noun := parents[name], use == "" || strings.HasPrefix(use, "[")
			switch {
			case parent == nil:
				parents[name] = client(name).routeCommand(&r, r.Command.Use)
				continue
			case !noun:
				parent.AddCommand(client(name).routeCommand(&r, use))
			}
			if r.Command.List != nil && !strings.Contains(r.Path, "*") { // not a list of one thing
				become(parent, client(name).routeCommand(&r, r.Command.Use), !noun)
			}
		}
	}
}

// routeCommand calls a route: it sends a form, or the name in the path, and prints the answer.
func (a *asking) routeCommand(r *debug.Route, use string) *cobra.Command {
	is := r.Command
	c := &cobra.Command{Use: use, Short: is.Short, Long: is.Long, Example: is.Example}
	for _, f := range is.Flags {
		if f.Default == "false" {
			c.Flags().Bool(f.Name, false, f.Usage)
		} else {
			c.Flags().String(f.Name, f.Default, f.Usage)
		}
	}
	dryRun, watched := false, false
	if r.Acts() {
		c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done")
	}
	if is.List == nil {
		addFormat(c, &a.output, answerFormats...)
	} else {
		addFormat(c, &a.output, listFormats...)
		c.Flags().BoolVarP(&watched, "watch", "w", false, fmt.Sprintf("show changes until Ctrl-C; the list is read every %s", is.List.Every))
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if _, value := instead(cmd, is); value != "" {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("%s takes %s or its flag for another subject, not both", cmd.CommandPath(), is.Takes)
		}
		form, err := formOf(cmd, is, args)
		if err == nil && is.Check != nil {
			err = is.Check(form)
		}
		return err
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if path, value := instead(cmd, is); value != "" {
			return a.show(cmd.Context(), strings.Replace(path, "*", debug.Name(value), 1), "")
		}
		form, err := formOf(cmd, is, args)
		if err != nil {
			return err
		}
		name := form.Get("*")
		form.Del("*")
		path := strings.Replace(r.Path, "*", debug.Name(name), 1)
		if is.List != nil {
			l := &listing{asking: a, list: is.List, path: path, query: form.Encode()}
			return l.show(cmd, watched)
		}
		if r.Method == http.MethodGet {
			return a.show(cmd.Context(), path, form.Encode())
		}
		if dryRun {
			form.Set("dryRun", "true")
		}
		answer, err := a.client().Post(cmd.Context(), strings.TrimSuffix(path+"."+a.output, ".text"), form)
		if err != nil {
			return err
		}
		defer answer.Close()
		return a.print(answer)
	}
	return c
}

// instead is the path of the route that a flag calls instead, and the value of the flag; empty if it is not set.
func instead(cmd *cobra.Command, is *debug.Command) (path, value string) {
	for _, f := range is.Flags {
		if f.Path != "" {
			path, value = f.Path, cmd.Flags().Lookup(f.Name).Value.String()
		}
	}
	return path, value
}

// formOf makes a form of arguments, and of the flags that are set.
func formOf(cmd *cobra.Command, is *debug.Command, args []string) (url.Values, error) {
	form := url.Values{}
	for _, f := range is.Flags {
		switch flag := cmd.Flags().Lookup(f.Name); {
		case !flag.Changed || flag.Value.String() == "false":
		case flag.Value.String() == "" && !f.Empty:
			return nil, &hinted{fmt.Errorf("--%s is empty", f.Name), "is its variable set? Leave the flag out to restrict nothing"}
		default:
			form.Set(f.Field, flag.Value.String())
		}
	}
	if is.Many != "" {
		if len(args) > 0 {
			form[is.Many] = args
		}
	} else {
		at := slices.IndexFunc(is.Args, func(fields []string) bool { return len(fields) == len(args) })
		if at < 0 && len(is.Args)+len(args) > 0 {
			return nil, wrongArguments(cmd, is, len(args))
		}
		for i, arg := range args {
			form.Set(is.Args[at][i], arg)
		}
	}
	return form, nil
}

func wrongArguments(cmd *cobra.Command, is *debug.Command, n int) error {
	switch {
	case is.Takes == "" && is.Check != nil:
		return is.Check(url.Values{})
	case is.Takes == "":
		return noSuchCommand(cmd, cmd.Flags().Args())
	}
	return fmt.Errorf("%s takes %s, it got %d: see %s --help", cmd.CommandPath(), is.Takes, n, cmd.CommandPath())
}

// become makes a command that only has subcommands show a list, too: the noun alone lists. Listed reports that the list is a subcommand,
// too.
func become(parent, list *cobra.Command, listed bool) {
	parent.Args, parent.PreRunE, parent.RunE = list.Args, list.PreRunE, list.RunE
	parent.Flags().AddFlagSet(list.Flags())
	parent.Long, parent.Example = list.Long, list.Example
	if listed {
		parent.Long = fmt.Sprintf("%s. Without a command it is %q.", parent.Short, list.Use)
	} else if _, arguments, ok := strings.Cut(list.Use, " "); ok {
		parent.Use += " " + arguments
	}
}
