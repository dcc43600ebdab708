package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"k8s.io/client-go/rest"
)

// serviceOf is the Service of a server that listens on an address.
func serviceOf(client rest.Interface, o Options, s *served, listening string) *serviceOptions {
	_, text, _ := net.SplitHostPort(listening)
	port, _ := strconv.Atoi(text)
	return &serviceOptions{
		Client: client, Namespace: s.namespace, Name: s.service, Target: port,
		Selector: o.Webhooks.ServiceSelector, Pod: o.Webhooks.PodName, Log: o.Log,
	}
}

// checkServices rejects one Service for both servers.
func checkServices(admission, conversion *served) error {
	if admission == nil || conversion == nil {
		return nil
	}
	if a, c := admission.made, conversion.made; a != nil && c != nil && a.Name == c.Name && a.Namespace == c.Namespace {
		return fmt.Errorf("with --webhook-create-services, --validating-webhook-service-name and --conversion-webhook-service-name cannot both "+
			"be %q: port 443 of a Service leads to one server", a.Name)
	}
	return nil
}

// removeServices deletes the Services that an operator has created, if it was configured to.
func removeServices(ctx context.Context, client rest.Interface, o Options) error {
	if !o.Webhooks.CreateServices {
		return nil
	}
	var errs []error
	for _, server := range []WebhookServer{o.Webhooks.Admission, o.Webhooks.Conversion} {
		at, err := endpointOf(o.Cluster, o.Webhooks, server)
		if err == nil && at.namespace != "" {
			err = removeService(ctx, serviceOptions{Client: client, Namespace: at.namespace, Name: server.ServiceName, DryRun: o.DryRun, Log: o.Log})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
