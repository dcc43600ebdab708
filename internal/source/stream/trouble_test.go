package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var things = Scope{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1alpha1", Resource: "things"},
	Namespace:            "shop", Labels: "app=web,tier!=db", Fields: "metadata.name=a",
}

func TestTroubles(t *testing.T) {
	group := things.GroupResource()
	refused := &url.Error{Op: "Get", URL: "https://x/", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	for _, test := range []struct {
		err  error
		kind Trouble
		text string
	}{
		{nil, NoTrouble, ""},
		{
			apierrors.NewForbidden(group, "", errors.New(`User "alice" cannot list`)), Forbidden,
			`no permission to list ` + things.String() + `: give the operator's ServiceAccount, by a Role in namespace "shop" (or a ClusterRole), ` +
				`the rule {apiGroups: ["example.com"], resources: ["things"], verbs: ["get", "list", "watch"]}`,
		},
		{
			fmt.Errorf("wrapped: %w", apierrors.NewUnauthorized("token expired")), Unauthorized,
			`the API server does not accept the operator's credentials for ` + things.String() +
				`: check the kubeconfig or the ServiceAccount token: wrapped: token expired`,
		},
		{
			apierrors.NewNotFound(group, ""), NotServed,
			`the API server does not serve ` + things.String() + `: is its CRD missing? If another version is served, set apiVersion to it`,
		},
		{
			refused, Unreachable,
			`the API server https://x cannot be reached: connection refused`,
		},
		{&url.Error{Op: "Get", URL: "https://x/", Err: io.EOF}, Unreachable,
			`the API server https://x cannot be reached: EOF`},
		{io.ErrUnexpectedEOF, OtherTrouble, `cannot list ` + things.String() + `: unexpected EOF`},
		{context.DeadlineExceeded, Unreachable,
			`the API server cannot be reached: context deadline exceeded`},
		{apierrors.NewInternalError(errors.New("etcd")), OtherTrouble, `cannot list ` + things.String() + `: Internal error occurred: etcd`},
		{apierrors.NewResourceExpired("too old"), Expired, `cannot list ` + things.String() + `: too old`},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonGone, Code: 410, Message: "gone"}}, Expired,
			`cannot list ` + things.String() + `: gone`},
	} {
		if got := TroubleOf(test.err); got != test.kind {
			t.Errorf("%v is %q, want %q", test.err, got, test.kind)
		}
		if test.err == nil {
			continue
		}
		if got := Explain(things, "list", test.err).Error(); got != test.text {
			t.Errorf("%v:\n got %s\nwant %s", test.err, got, test.text)
		}
	}
}
