// Package manifests checks those in deploy/fleet: each as strictly as the API server of
// Kubernetes does, or docker compose, and what they refer to.
package manifests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// dir is where the manifests are.
var dir = filepath.Join("..", "..", "deploy", "fleet")

// objects are the documents of kubernetes.yaml, by kind and name.
func objects(t *testing.T) map[string]any {
	text, err := os.ReadFile(filepath.Join(dir, "kubernetes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var head struct {
			meta.TypeMeta
			Metadata meta.ObjectMeta
		}
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatal(err)
		}
		into, ok := map[string]any{"v1 ConfigMap": &core.ConfigMap{}, "v1 Service": &core.Service{}, "apps/v1 StatefulSet": &apps.StatefulSet{}, "apps/v1 DaemonSet": &apps.DaemonSet{}}[head.APIVersion+" "+head.Kind]
		if !ok {
			t.Fatalf("%s %s is not known here", head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict(doc, into); err != nil {
			t.Errorf("%s %s: %v", head.Kind, head.Metadata.Name, err)
		}
		if head.Metadata.Namespace != "fetcher" {
			t.Errorf("%s %s is in the namespace %q", head.Kind, head.Metadata.Name, head.Metadata.Namespace)
		}
		out[head.Kind+" "+head.Metadata.Name] = into
	}
	return out
}

func TestKubernetes(t *testing.T) {
	all := objects(t)
	set := all["DaemonSet fetcher"].(*apps.DaemonSet)
	store := all["StatefulSet nats"].(*apps.StatefulSet)
	service := all["Service nats"].(*core.Service)
	pods(t, set.Spec.Selector, set.Spec.Template, nil)
	pods(t, store.Spec.Selector, store.Spec.Template, store.Spec.VolumeClaimTemplates)
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(store.Spec.Template.Labels)) || store.Spec.ServiceName != service.Name {
		t.Error("the service is not that of the store")
	}
	if all["ConfigMap nats"].(*core.ConfigMap).Data["nats.conf"] == "" {
		t.Error("the store has no configuration")
	}
	c := set.Spec.Template.Spec.Containers[0]
	taken(t, c.Args)
	if !strings.Contains(strings.Join(c.Args, " "), "nats://"+service.Name+":4222/") {
		t.Errorf("%q does not name the store", c.Args)
	}
}

// pods fails unless a selector finds the pods, and what they mount exists.
func pods(t *testing.T, selector *meta.LabelSelector, pod core.PodTemplateSpec, claims []core.PersistentVolumeClaim) {
	t.Helper()
	s, err := meta.LabelSelectorAsSelector(selector)
	if err != nil || !s.Matches(labels.Set(pod.Labels)) {
		t.Errorf("%v does not select %v: %v", selector, pod.Labels, err)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, v := range claims {
		volumes[v.Name] = true
	}
	for _, c := range pod.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s mounts %s, which is no volume", c.Name, m.Name)
			}
		}
	}
}

// taken fails unless fetcher accepts these arguments.
func taken(t *testing.T, args []string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "fetcher")
	build := exec.Command("go", "build", "-o", binary, "./cmd/fetcher")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(binary, append(args, "--help")...).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("fetcher fleet run [")) {
		t.Errorf("%q: %v: %s", args, err, out)
	}
	if err := exec.Command(binary, append(args, "--nonsense", "--help")...).Run(); err == nil {
		t.Error("any flag is taken")
	}
}

func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")}, cli.WithEnv([]string{"STORE=192.0.2.1"}), cli.WithProfiles([]string{"store"}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Services) != 2 {
		t.Errorf("%d services", len(p.Services))
	}
	taken(t, p.Services["fetcher"].Command)
	if options, err = cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")}); err == nil {
		_, err = options.LoadProject(t.Context())
	}
	if err == nil {
		t.Error("the address of the store may be left out")
	}
}
