package main

import (
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// largestRequest is how many bytes an object may have, on its way in and in etcd. Kubernetes takes 3 MiB and etcd half of
// it, but API servers that are joined to a cluster may serve larger objects, so tests have some.
const largestRequest = 16 << 20

// etcdCalls are the options of the calls that the API server makes to etcd. They limit what is sent, and no option of
// the API server reaches them.
//
//go:linkname etcdCalls go.etcd.io/etcd/client/v3.defaultCallOpts
var etcdCalls []grpc.CallOption

// newAPIServerCommand is the command of Kubernetes, for larger objects: there is no flag for that.
func newAPIServerCommand() *cobra.Command {
	for i, o := range etcdCalls {
		if _, limits := o.(grpc.MaxSendMsgSizeCallOption); limits {
			etcdCalls[i] = grpc.MaxCallSendMsgSize(2 * largestRequest)
		}
	}
	ctx := genericapiserver.SetupSignalContext()
	s := options.NewServerRunOptions()
	s.GenericServerRunOptions.MaxRequestBodyBytes = largestRequest
	components := s.GenericServerRunOptions.ComponentGlobalsRegistry
	cmd := &cobra.Command{Use: "kube-apiserver", SilenceUsage: true, Args: cobra.NoArgs}
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		rest.SetDefaultWarningHandler(rest.NoWarnings{})
		return components.Set()
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := logsapi.ValidateAndApply(s.Logs, components.FeatureGateFor("kube")); err != nil {
			return err
		}
		complete, err := s.Complete(ctx)
		if err != nil {
			return err
		}
		if errs := complete.Validate(); len(errs) > 0 {
			return utilerrors.NewAggregate(errs)
		}
		return apiserver.Run(ctx, complete)
	}
	for _, f := range s.Flags().FlagSets {
		cmd.Flags().AddFlagSet(f)
	}
	cmd.SetContext(ctx)
	return cmd
}
