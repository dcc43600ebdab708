package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/annotate"
	"k8s.io/kubectl/pkg/cmd/auth"
	"k8s.io/kubectl/pkg/cmd/create"
	"k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/label"
	"k8s.io/kubectl/pkg/cmd/patch"
	"k8s.io/kubectl/pkg/cmd/replace"
	"k8s.io/kubectl/pkg/cmd/rollout"
	"k8s.io/kubectl/pkg/cmd/scale"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/version"
	"k8s.io/kubectl/pkg/cmd/wait"

	"github.com/shell-operator/shell-operator/kubectl/trimmed/first"
)

const name = "kubectl"

// newCommand builds one command of first.Served: building all of them takes longer than most of them run.
func newCommand(verb string, f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	switch verb {
	case "annotate":
		return annotate.NewCmdAnnotate(name, f, streams)
	case "apply":
		return newApply(f, streams)
	case "auth":
		return auth.NewCmdAuth(f, streams)
	case "create":
		return create.NewCmdCreate(f, streams)
	case "delete":
		return delete.NewCmdDelete(f, streams)
	case "get":
		return get.NewCmdGet(name, f, streams)
	case "label":
		return label.NewCmdLabel(f, streams)
	case "patch":
		return patch.NewCmdPatch(f, streams)
	case "replace":
		return replace.NewCmdReplace(f, streams)
	case "rollout":
		return rollout.NewCmdRollout(name, f, streams)
	case "scale":
		return scale.NewCmdScale(f, streams)
	case "version":
		return version.NewCmdVersion(f, streams)
	case "wait":
		return wait.NewCmdWait(f, streams)
	}
	return nil
}

// newRoot returns kubectl with the called command alone, or the reason why the complete kubectl must carry out the call.
func newRoot(args []string) (called *cobra.Command, reason string) {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root, factory := newEmptyRoot(streams)
	call, ok := parse(root.PersistentFlags(), args, true)
	if !ok {
		return nil, "flag"
	}
	if len(call.words) == 0 {
		return nil, "command"
	}
	verb := call.words[0]
	command := newCommand(verb, factory, streams)
	if command == nil {
		return nil, "command"
	}
	first.Verb = verb
	root.AddCommand(command)
	// An error of get names explain if there is such a command.
	root.AddCommand(&cobra.Command{Use: "explain", Run: func(*cobra.Command, []string) { first.Exec("command") }})
	leaf, rest, err := root.Find(args)
	if err != nil {
		return nil, "command"
	}
	leaf.InheritedFlags() // adds them to its flags
	if call, ok = parse(leaf.Flags(), rest, false); !ok || !servesFlags(verb, call) {
		return nil, "flag"
	}
	if !serves(verb, leaf, call) {
		return nil, "command"
	}
	return root, ""
}

// servesFlags reports whether this program has what the flags of a call need.
func servesFlags(verb string, call call) bool {
	return !slices.ContainsFunc(slices.Concat(first.Served[verb], []string{"cache-dir", "kustomize"}), func(flag string) bool {
		return slices.Contains(call.flags, flag)
	})
}

// serves reports whether this program has the subcommand of a call.
func serves(verb string, leaf *cobra.Command, call call) bool {
	switch path := strings.TrimPrefix(leaf.CommandPath(), name+" "); verb {
	case "auth":
		return path == "auth can-i"
	case "rollout":
		return path == "rollout restart" || path == "rollout status"
	case "create":
		if path == verb { // a word may be the name of a plugin; without a file, kubectl prints help
			return len(call.words) == 0 && slices.Contains(call.flags, "filename")
		}
		return !leaf.HasSubCommands()
	default:
		return path == verb
	}
}

// call are arguments apart: words are those that are neither flags nor their values.
type call struct{ words, flags []string }

// parse separates arguments as pflag does, without setting a flag. It fails for flags that are unknown or print a message.
func parse(flags *pflag.FlagSet, args []string, firstWord bool) (c call, ok bool) {
	known := func(f *pflag.Flag) bool {
		if f == nil || f.Deprecated != "" || f.ShorthandDeprecated != "" {
			return false
		}
		c.flags = append(c.flags, f.Name)
		return true
	}
	for i := 0; i < len(args) && !(firstWord && len(c.words) > 0); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			c.words = append(c.words, args[i+1:]...)
			return c, true
		case len(arg) < 2 || arg[0] != '-':
			c.words = append(c.words, arg)
		case arg[1] == '-':
			name, _, hasValue := strings.Cut(arg[2:], "=")
			f := flags.Lookup(name)
			if strings.Contains(name, "_") || !known(f) {
				return c, false
			}
			if !hasValue && f.NoOptDefVal == "" {
				i++
			}
		default:
			for letters := arg[1:]; letters != "" && letters[0] != '='; {
				f := flags.ShorthandLookup(letters[:1])
				if !known(f) {
					return c, false
				}
				letters = letters[1:]
				if f.NoOptDefVal == "" {
					if letters == "" {
						i++
					}
					break
				}
			}
		}
	}
	return c, true
}

// newEmptyRoot returns kubectl without commands: what is common to all of them.
func newEmptyRoot(streams genericiooptions.IOStreams) (*cobra.Command, cmdutil.Factory) {
	warnings := rest.NewWarningWriter(streams.ErrOut,
		rest.WarningWriterOptions{Deduplicate: true, Color: printers.AllowsColorOutput(streams.ErrOut)})
	headers := &genericclioptions.CommandHeaderRoundTripper{}
	var warningsFail bool
	root := &cobra.Command{
		Use:               name,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			first.Record("trimmed") // nothing passes the call on from here
			headers.ParseCommandHeaders(cmd, args)
			rest.SetDefaultWarningHandler(warnings)
			return nil
		},
		PersistentPostRunE: func(*cobra.Command, []string) error {
			switch n := warnings.WarningCount(); {
			case !warningsFail || n == 0:
				return nil
			case n == 1:
				return fmt.Errorf("%d warning received", n)
			default:
				return fmt.Errorf("%d warnings received", n)
			}
		},
	}
	// Messages about invalid flags and about the usage are long, and need all commands.
	root.SetFlagErrorFunc(func(*cobra.Command, error) error { first.Exec("flag"); return nil })
	root.SetHelpFunc(func(*cobra.Command, []string) { first.Exec("flag") })
	root.SetUsageFunc(func(*cobra.Command) error { first.Exec("flag"); return nil })

	connection := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	connection.WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return &genericclioptions.CommandHeaderRoundTripper{Delegate: next, Headers: headers.Headers}
		})
		return config
	})
	ambiguous := printers.NewWarningPrinter(streams.ErrOut, printers.WarningPrinterOptions{Color: printers.AllowsColorOutput(streams.ErrOut)})
	checked := cmdutil.NewMatchVersionFlags(&getter{RESTClientGetter: connection, warn: ambiguous.Print})
	flags := root.PersistentFlags()
	flags.BoolVar(&warningsFail, "warnings-as-errors", false, "")
	connection.AddFlags(flags)
	checked.AddFlags(flags)
	return root, factory{cmdutil.NewFactory(checked)}
}
