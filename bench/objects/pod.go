package objects

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func podName(i int) string {
	r := random("PodName", i)
	return fmt.Sprintf("shop-%s-%s-%s", []string{"frontend", "basket", "payment", "search"}[i%4], text(r, 10), text(r, 5))
}

func uid(r *rand.Rand) types.UID {
	return types.UID(hexadecimal(r, 8) + "-" + hexadecimal(r, 4) + "-4" + hexadecimal(r, 3) + "-8" + hexadecimal(r, 3) + "-" +
		hexadecimal(r, 12))
}

// Pod returns a Pod as a Deployment makes it: two containers, probes, variables and volumes. Its Status is that of a Pod
// that runs; the API server takes it only in a second request. Who writes the first as kube-controller-manager and the
// second as kubelet gets the managedFields that Pods have.
func Pod(i int) *corev1.Pod {
	r := random("Pod", i)
	app := []string{"frontend", "basket", "payment", "search"}[i%4]
	node := fmt.Sprintf("node-%03d", r.IntN(200))
	controller := true
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(i),
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/version": "2.14.1",
				"pod-template-hash": text(r, 10),
			},
			Annotations: map[string]string{
				"checksum/config":      hexadecimal(r, 64),
				"prometheus.io/scrape": "true", "prometheus.io/port": "9102",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "example.com/v1", Kind: "Replicas", Name: "shop-" + app, UID: uid(r), Controller: &controller,
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:                     node,
			AutomountServiceAccountToken: new(bool),
			Containers:                   []corev1.Container{appContainer(app), sidecar()},
			Volumes: []corev1.Volume{
				{Name: "config",
					VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config"}}}},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
			Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "shop",
				Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: podStatus(r),
	}
}

func appContainer(app string) corev1.Container {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8080)}},
			PeriodSeconds: 10, TimeoutSeconds: 2, FailureThreshold: 3,
		}
	}
	return corev1.Container{
		Name: "app", Image: "registry.example.com/shop/" + app + ":2.14.1",
		Args:  []string{"--listen=:8080", "--metrics=:9102", "--config=/etc/shop/config.yaml"},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9102}},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "DATABASE",
				ValueFrom: &corev1.EnvVarSource{
					SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: app + "-database"}, Key: "url"}}},
			{Name: "REGION", Value: "eu-central"}, {Name: "LOG_LEVEL", Value: "info"},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		VolumeMounts:   []corev1.VolumeMount{{Name: "config", MountPath: "/etc/shop", ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"}},
		ReadinessProbe: probe("/ready"), LivenessProbe: probe("/healthz"),
	}
}

func sidecar() corev1.Container {
	return corev1.Container{
		Name: "log-forwarder", Image: "registry.example.com/platform/log-forwarder:1.9.0",
		Env:          []corev1.EnvVar{{Name: "TARGET", Value: "logs.platform.svc:24224"}},
		VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/var/log/app"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
			corev1.ResourceMemory: resource.MustParse("32Mi")}},
	}
}

func podStatus(r *rand.Rand) corev1.PodStatus {
	started := metav1.NewTime(at.Add(-time.Duration(r.IntN(3_000_000)) * time.Second))
	yes := true
	ip := fmt.Sprintf("10.%d.%d.%d", r.IntN(256), r.IntN(256), r.IntN(256))
	host := fmt.Sprintf("192.168.%d.%d", r.IntN(256), r.IntN(256))
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: host, HostIPs: []corev1.HostIP{{IP: host}},
		StartTime: &started, QOSClass: corev1.PodQOSBurstable,
	}
	for _, condition := range []corev1.PodConditionType{"PodReadyToStartContainers", corev1.PodInitialized, corev1.PodReady,
		corev1.ContainersReady, corev1.PodScheduled} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue,
			LastTransitionTime: started})
	}
	for _, c := range []corev1.Container{appContainer("app"), sidecar()} {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "registry.example.com/shop@sha256:" + hexadecimal(r, 64),
			ContainerID: "containerd://" + hexadecimal(r, 64), Ready: true, Started: &yes, RestartCount: int32(r.IntN(3)),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		})
	}
	return status
}
