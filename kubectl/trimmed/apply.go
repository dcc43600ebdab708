package main

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/openapi3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kubectl/pkg/cmd/apply"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// newApply returns kubectl's command with a change: it parses the schema of a group once per call and not twice per object.
func newApply(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	command, flags := apply.NewCmdApply(name, f, streams), apply.NewApplyFlags(streams)
	command.ResetFlags()
	flags.AddFlags(command)
	command.Run = func(cmd *cobra.Command, args []string) {
		o, err := flags.ToOptions(f, cmd, name, args)
		cmdutil.CheckErr(err)
		if o.OpenAPIV3Root != nil {
			o.OpenAPIV3Root = &schemas{o.OpenAPIV3Root, map[schema.GroupVersion]*spec3.OpenAPI{}}
		}
		cmdutil.CheckErr(o.Validate())
		cmdutil.CheckErr(o.Run())
	}
	return command
}

// schemas keeps what it has parsed. Apply reads them, one object after the other.
type schemas struct {
	openapi3.Root
	parsed map[schema.GroupVersion]*spec3.OpenAPI
}

func (s *schemas) GVSpec(version schema.GroupVersion) (*spec3.OpenAPI, error) {
	if spec := s.parsed[version]; spec != nil {
		return spec, nil
	}
	spec, err := s.Root.GVSpec(version)
	if err == nil {
		s.parsed[version] = spec
	}
	return spec, err
}
