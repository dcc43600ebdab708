package admission

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// review is what the operator itself needs of an AdmissionReview. Objects are not parsed.
type review struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Request    *request `json:"request"`
}

type request struct {
	UID  string `json:"uid"`
	Kind struct {
		Kind string `json:"kind"`
	} `json:"kind"`
	SubResource string `json:"subResource"`
	Operation   string `json:"operation"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	DryRun      bool   `json:"dryRun"`
}

// subject names what is reviewed, as far as metadata says: never values.
func (r *review) subject(w *webhook) string {
	kind, name := r.Request.Kind.Kind, r.Request.Name
	if r.Request.SubResource != "" {
		kind += "/" + r.Request.SubResource
	}
	if name == "" {
		name = "(no name yet)" // of generateName
	}
	if r.Request.Namespace != "" {
		name = r.Request.Namespace + "/" + name
	}
	text := strings.ToValidUTF8(fmt.Sprintf("%s %s %s", r.Request.Operation, kind, name), "\uFFFD")
	if runes := []rune(text); len(runes) > maxSubject {
		text = string(runes[:maxSubject])
	}
	return text + " (" + w.binding.Name + ")"
}

// maxSubject bounds what a client can make the operator keep. Names have at most 253 characters.
const maxSubject = 600

// Refusals of what is no review, in the words of the original program.
var (
	errInvalid   = httpserver.Refuse(http.StatusBadRequest, "Invalid JSON payload")
	errNoRequest = httpserver.Refuse(http.StatusBadRequest, "Missing parameters: request")
	errUnknown   = httpserver.Refuse(http.StatusBadRequest,
		"Unknown kind of review: only AdmissionReview of admission.k8s.io/v1 and v1beta1 are answered")
)

// parseReview parses a review of either version: they have the same fields. A review without apiVersion or kind is
// accepted, for compatibility.
func parseReview(body []byte) (*review, error) {
	var r review
	// The API server sends neither of these; other clients may, for compatibility.
	if err := jsonv2.Unmarshal(body, &r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, errInvalid
	}
	switch r.APIVersion {
	case "", "admission.k8s.io/v1", "admission.k8s.io/v1beta1":
	default:
		return nil, errUnknown
	}
	if r.Kind != "" && r.Kind != "AdmissionReview" {
		return nil, errUnknown
	}
	if r.Request == nil {
		return nil, errNoRequest
	}
	return &r, nil
}

// respond writes the review's answer.
func (r *review) respond(w http.ResponseWriter, v *verdict) error {
	response := &admissionv1.AdmissionResponse{UID: types.UID(r.Request.UID), Allowed: v.allowed, Patch: v.patch, Warnings: v.warnings}
	if len(v.patch) > 0 {
		response.PatchType = new(admissionv1.PatchTypeJSONPatch)
	}
	if !v.allowed {
		response.Result = &metav1.Status{Message: v.message, Code: int32(v.code)}
	}
	text, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: r.APIVersion, Kind: r.Kind}, Response: response,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, err = w.Write(text)
	return err
}
