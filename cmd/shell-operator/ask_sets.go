package main

import (
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// clusterFlags make a command use a cluster in place of a running operator.
var clusterFlags = []string{"kube-config", "kube-context", "kube-server", "namespace", "instance"}

// needsNoOperator is the help about these flags.
const needsNoOperator = `With --kube-config, --kube-context, --kube-server, --namespace or --instance the command uses the cluster, and the
operator need not run. It is not known then which hooks are active.`

// useCluster makes the command one of a cluster.
func (a *asking) useCluster() error {
	dir, err := os.MkdirTemp("", "shell-operator-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o := a.settings.options(slog.New(slog.DiscardHandler))
	cl, err := kube.Connect(o.Cluster, dir)
	if err == nil {
		a.direct, err = app.NewSetsClient(cl, o)
	}
	return err
}

// withoutOperator lets the commands below c use a cluster in place of an operator.
func (a *asking) withoutOperator(c *cobra.Command) {
	c.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		direct := slices.ContainsFunc(clusterFlags, cmd.Flags().Changed) // later, a variable is a changed flag, too
		err := a.settings.complete(cmd.Flags())
		if err == nil && direct {
			err = a.useCluster()
		}
		return err
	}
	for _, sub := range append(c.Commands(), c) {
		uses(sub, append([]string{"debug-unix-socket"}, clusterFlags...)...)
		sub.Long += "\n\n" + needsNoOperator
	}
}
