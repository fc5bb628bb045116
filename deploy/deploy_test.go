package deploy

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/walrelay/walrelay/config"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// mount is a volume or a file of ours in a container.
type mount struct{ Source, Target string }

// service is what is checked of a service in the compose file.
type service struct {
	Image       string
	Profiles    []string
	Command     []string
	Environment map[string]string
	Volumes     []mount
	ReadOnly    bool `json:"read_only"`
	Healthcheck *struct{ Test []string }
	DependsOn   map[string]struct{ Condition string } `json:"depends_on"`
	Build       *struct{ Dockerfile string }
}

// services are those of docker-compose.yml, read by the loader of Docker Compose.
func services(t *testing.T) map[string]service {
	t.Helper()
	cmd := exec.Command("go", "run", ".", "../../docker-compose.yml")
	cmd.Dir = "composeconfig"
	out, err := cmd.Output()
	if err != nil {
		exit, _ := err.(*exec.ExitError)
		t.Fatalf("docker-compose.yml: %v\n%s", err, exit.Stderr)
	}
	var project struct{ Services map[string]service }
	if err := json.Unmarshal(out, &project); err != nil {
		t.Fatal(err)
	}
	return project.Services
}

func TestCompose(t *testing.T) {
	all := services(t)

	t.Run("profiles", func(t *testing.T) {
		byProfile := map[string][]string{}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			profile := strings.Join(all[name].Profiles, ",")
			byProfile[profile] = append(byProfile[profile], name)
		}
		want := map[string][]string{"": {"init", "kafka", "postgres", "walrelay"}, "demo": {"consumer", "producer"}, "monitoring": {"grafana", "prometheus"}}
		if diff := cmp.Diff(want, byProfile); diff != "" {
			t.Errorf("services by profile (-want +got):\n%s", diff)
		}
	})

	t.Run("images are of the versions that the tests start", func(t *testing.T) {
		postgres, kafka := "postgres:"+pgtest.Shared(t, "").Version(), "apache/kafka:"+testedKafka(t)
		want := map[string]string{
			"postgres": postgres, "producer": postgres, "kafka": kafka, "consumer": kafka,
			"init": "walrelay", "walrelay": "walrelay",
		}
		got := map[string]string{}
		for name, s := range all {
			if !slices.Contains(s.Profiles, "monitoring") {
				got[name] = s.Image
			} else if !regexp.MustCompile(`^[\w/]+:v?\d+\.\d+\.\d+$`).MatchString(s.Image) {
				t.Errorf("%s: image %s is not of one version", name, s.Image)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("images (-want +got):\n%s", diff)
		}
		for _, name := range []string{"init", "walrelay"} {
			if b := all[name].Build; b == nil || b.Dockerfile != "Dockerfile" {
				t.Errorf("%s is not built from the Dockerfile: %+v", name, b)
			}
		}
	})

	t.Run("what is mounted is there, and walrelay writes nothing", func(t *testing.T) {
		for name, s := range all {
			for _, v := range s.Volumes {
				if strings.HasPrefix(v.Source, "/") {
					if _, err := os.Stat(v.Source); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
			if s.Image == "walrelay" && (!s.ReadOnly || len(s.Volumes) > 0) {
				t.Errorf("%s has a file system that can be written", name)
			}
		}
	})

	t.Run("prometheus scrapes walrelay with the alerts, grafana asks prometheus", func(t *testing.T) {
		_, port, _ := strings.Cut(all["walrelay"].Environment["WALRELAY_HTTP_LISTEN"], ":")
		if scraping := file(t, "prometheus/prometheus.yaml"); !strings.Contains(scraping, `"walrelay:`+port+`"`) || !strings.Contains(scraping, "job_name: walrelay") ||
			!strings.Contains(scraping, "rule_files: [alerts.yaml]") {
			t.Errorf("prometheus.yaml:\n%s", scraping)
		}
		if source := file(t, "grafana/provisioning/datasources/prometheus.yaml"); !strings.Contains(source, "http://prometheus:9090") {
			t.Errorf("datasource:\n%s", source)
		}
		dashboard := all["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
		if !slices.ContainsFunc(all["grafana"].Volumes, func(v mount) bool { return v.Target == dashboard && path.Base(v.Source) == "walrelay.json" }) {
			t.Errorf("the dashboard %s is not mounted", dashboard)
		}
	})

	t.Run("postgres", func(t *testing.T) {
		if s := all["postgres"]; !slices.Contains(s.Command, "wal_level=logical") {
			t.Errorf("command %q does not set wal_level=logical", s.Command)
		} else if len(s.Volumes) != 1 || s.Volumes[0].Target != "/var/lib/postgresql" {
			t.Errorf("volumes %v: since 18 the image wants one at /var/lib/postgresql", s.Volumes)
		}
	})

	t.Run("every service waits for what it needs", func(t *testing.T) {
		const healthy, completed = "service_healthy", "service_completed_successfully"
		want := map[string]map[string]string{
			"postgres": {}, "kafka": {},
			"init":     {"postgres": healthy, "kafka": healthy},
			"walrelay": {"init": completed},
			"producer": {"init": completed},
			"consumer": {"kafka": healthy},

			"prometheus": {"walrelay": "service_started"},
			"grafana":    {"prometheus": "service_started"},
		}
		got := map[string]map[string]string{}
		for name, s := range all {
			got[name] = map[string]string{}
			for on, d := range s.DependsOn {
				if got[name][on] = d.Condition; d.Condition == healthy && all[on].Healthcheck == nil {
					t.Errorf("%s waits for the health of %s, which has no healthcheck", name, on)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("depends_on (-want +got):\n%s", diff)
		}
	})
}

// testedKafka is the version of Kafka that the tests start.
func testedKafka(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../internal/kafkatest/pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	var pom struct {
		Dependencies []struct {
			Artifact string `xml:"artifactId"`
			Version  string `xml:"version"`
		} `xml:"dependencies>dependency"`
	}
	if err := xml.Unmarshal(text, &pom); err != nil {
		t.Fatal(err)
	}
	for _, d := range pom.Dependencies {
		if d.Artifact == "kafka_2.13" {
			return d.Version
		}
	}
	t.Fatal("pom.xml of kafkatest does not name kafka_2.13")
	return ""
}

// TestConfiguration reads the variables of our services as walrelay itself does, which refuses unknown ones, and compares
// the addresses with those that the other services have.
func TestConfiguration(t *testing.T) {
	all := services(t)
	for _, name := range []string{"init", "walrelay"} {
		var environ []string
		for key, value := range all[name].Environment {
			environ = append(environ, key+"="+value)
		}
		c, err := config.Load(config.Sources{Environ: environ})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		postgres := all["postgres"].Environment
		want := url.URL{
			Scheme: "postgres", Host: "postgres:5432", Path: "/" + postgres["POSTGRES_DB"], RawQuery: "sslmode=disable",
			User: url.UserPassword(postgres["POSTGRES_USER"], postgres["POSTGRES_PASSWORD"]),
		}
		if got := c.Postgres.URL.Reveal(); got != want.String() {
			t.Errorf("%s: Postgres is %s, want %s", name, got, &want)
		}
		advertised := all["kafka"].Environment["KAFKA_ADVERTISED_LISTENERS"]
		if len(c.Kafka.Brokers) != 1 || !strings.Contains(advertised, "://"+c.Kafka.Brokers[0]+",") {
			t.Errorf("%s: brokers %q, but Kafka advertises %s", name, c.Kafka.Brokers, advertised)
		}
	}
}

// TestOrders runs what the producer runs once a second.
func TestOrders(t *testing.T) {
	producer := services(t)["producer"]
	if len(producer.Volumes) != 1 || path.Base(producer.Volumes[0].Source) != "orders.sql" ||
		!strings.Contains(producer.Command[len(producer.Command)-1], "--file="+producer.Volumes[0].Target) {
		t.Fatalf("producer does not run orders.sql: %+v", producer)
	}
	orders, err := os.ReadFile("orders.sql")
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, db, migrations.OutboxSQL("public", "outbox"), string(orders), string(orders))

	conn, err := pgx.Connect(context.Background(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var events int
	err = conn.QueryRow(context.Background(), `SELECT count(*) FROM outbox JOIN orders ON payload->>'id' = orders.id::text
		AND aggregatetype = 'order' AND aggregateid = customer AND type = 'OrderPlaced'`).Scan(&events)
	if err != nil || events != 2 {
		t.Errorf("%d events match their orders (%v), want 2", events, err)
	}
}

// TestDockerfile checks what no engine is needed for.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)[1]
	for what, pattern := range map[string]string{
		"the Go of go.mod":   `golang:` + regexp.QuoteMeta(string(goVersion)) + `\.\d+-`,
		"a static binary":    `CGO_ENABLED=0 .*\s+go build -trimpath`,
		"an empty base":      `(?m)^FROM scratch$`,
		"a numeric user":     `(?m)^USER [1-9]\d*:[1-9]\d*$`,
		"the binary as main": `(?m)^ENTRYPOINT \["/walrelay"\]$`,
	} {
		if !regexp.MustCompile(pattern).Match(text) {
			t.Errorf("Dockerfile has not %s: nothing matches %s", what, pattern)
		}
	}
}

// TestDockerignore makes sure that the build in the image gets every folder that it needs.
func TestDockerignore(t *testing.T) {
	text, err := os.ReadFile("../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	ignored := strings.Fields(string(text))
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", "./cmd/walrelay")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, pkg := range strings.Fields(string(out)) {
		folder := strings.TrimPrefix(pkg, "github.com/walrelay/walrelay/")
		if top, _, _ := strings.Cut(folder, "/"); slices.Contains(ignored, top) {
			t.Errorf(".dockerignore keeps %s away from the build", folder)
		}
	}
}
