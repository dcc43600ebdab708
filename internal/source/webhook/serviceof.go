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
func serviceOf(client rest.Interface, o Options, s *served, listening string) serviceOptions {
	_, text, _ := net.SplitHostPort(listening)
	port, _ := strconv.Atoi(text)
	return serviceOptions{
		Client: client, Namespace: s.namespace, Name: s.service, Target: port,
		Selector: o.Webhooks.ServiceSelector, Pod: o.Webhooks.PodName, Log: o.Log,
	}
}

// checkServices rejects one Service for both servers.
func checkServices(all []serviceOptions) error {
	if len(all) == 2 && all[0].Name == all[1].Name && all[0].Namespace == all[1].Namespace {
		return fmt.Errorf("with --webhook-create-services, --validating-webhook-service-name and --conversion-webhook-service-name cannot both be %q: port 443 of a Service leads to one server", all[0].Name)
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
		at, err := placeOf(o.Cluster, o.Webhooks, server)
		if err == nil && at.namespace != "" {
			err = removeService(ctx, serviceOptions{Client: client, Namespace: at.namespace, Name: server.ServiceName, Log: o.Log})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
