package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/dev"
)

func newInitCommand(stdout io.Writer) *cobra.Command {
	o := dev.InitOptions{Path: os.Getenv("PATH")}
	agents, project, output := false, false, ""
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write the first version of a hook and its test file",
		Long: `Write an executable hook, its test file beside it, and the object of its tests below fixtures. Nothing is overwritten. Without
arguments, it is hooks/pods.sh, which watches Pods.

The language is that of the extension of FILE: .sh, .bash (with the shell library), .py (with the Python library);
the default is sh. Hooks in sh and bash need jq. A hook in another language is any executable: a test file runs it, too.`,
		Example: `  shell-operator init
  shell-operator init hooks/pods.py --worker
  shell-operator init hooks/check.py --binding validating --kind Deployment
  shell-operator init hooks/widgets.sh --kind example.com/v1/Widget --lang bash
  shell-operator init --agents
  shell-operator init --project
  shell-operator init hooks/sites.py --reconcile --kind example.com/v1/Site`,
		Args: upToOne("one file, the hook"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.File = args[0]
			}
			if agents {
				return initAgents(stdout, args)
			}
			if project {
				o.Project = imageTag()
			}
			done, err := dev.Init(o)
			if output == formatJSON && err == nil {
				return printValue(stdout, output, done)
			}
			for _, path := range done.Paths {
				fmt.Fprintln(stdout, "wrote", path)
			}
			if err != nil {
				return err
			}
			if done.Missing != "" {
				fmt.Fprintf(stdout, "install %s first: the hook needs it, and it is not in PATH\n", done.Missing)
			}
			if done.Kind != "" {
				fmt.Fprintf(stdout, "it converts %s: --kind names another kind\n", done.Kind)
			}
			fmt.Fprintf(stdout, "next: %s\n", done.Next)
			if len(done.Session) > 0 {
				fmt.Fprintf(stdout, "then: %s\nand in another terminal, with the KUBECONFIG that it prints, or that of your cluster:\n  %s\n",
					done.Session[0], strings.Join(done.Session[1:], "\n  "))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Binding, "binding", "kubernetes",
		"type of the binding: kubernetes, schedule, startup, validating, mutating, conversion, http")
	cmd.Flags().StringVar(&o.Kind, "kind", "",
		"kind of the objects, GROUP/VERSION/KIND if it is not built in "+
			"(default Pod; with --reconcile and of a conversion example.com/…/Widget)")
	cmd.Flags().StringVar(&o.Language, "lang", "",
		"language: sh, bash, python (default: that of the extension of FILE, else sh)")
	cmd.Flags().BoolVar(&o.Reconcile, "reconcile", false,
		"write a hook for a custom resource with children, condition and finalizer, its CRD and its Role: sh and python")
	cmd.MarkFlagsMutuallyExclusive("reconcile", "binding")
	cmd.Flags().BoolVar(&project, "project", false,
		"write also, beside the directory of the hook, what deploys it: Dockerfile, values.yaml of the chart and AGENTS.md")
	addFormat(cmd, &output, formatText, formatJSON)
	cmd.Flags().BoolVar(&agents, "agents", false, "write AGENTS.md for assistants that write hooks, and no hook")
	cmd.Flags().BoolVar(&o.Worker, "worker", false, "start the hook once, for many runs: bash and python")
	for _, other := range []string{"binding", "kind", "lang", "worker", "reconcile", "project"} {
		cmd.MarkFlagsMutuallyExclusive("agents", other)
	}
	_ = cmd.RegisterFlagCompletionFunc("binding", cobra.FixedCompletions(dev.InitBindings(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(dev.InitLanguages(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// imageTag is the tag of the image of this version, or latest.
func imageTag() string {
	if released.MatchString(version) {
		return version
	}
	return "latest"
}

var released = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// initAgents writes AGENTS.md.
func initAgents(stdout io.Writer, args []string) error {
	if len(args) > 0 {
		return errors.New("--agents writes AGENTS.md into the working directory, and no hook: use it alone")
	}
	path, err := dev.InitAgents()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "wrote %s\n", path)
	return err
}
