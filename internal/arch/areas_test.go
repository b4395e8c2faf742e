package arch

// module is the path of the root module.
const module = "github.com/slipway-dev/slipway"

// area is a part of the tree with the permitted dependencies of its files.
type area struct {
	// path is a directory relative to the module. With /... at the end it is the directory and all
	// directories below it, whose packages may import one another.
	path string
	// uses are the parts of this module that may be imported, as in path.
	uses []string
	// testUses are additional imports of test files.
	testUses []string
	// core marks a pure package: no I/O, clock, environment, randomness or goroutine, and no
	// modules of other authors except the modules in third.
	core  bool
	third []string
	// bars are packages of the standard library that the area does without.
	bars []string
	// program marks main programs and test rigs, which own their process.
	program bool
	// cluster marks areas that may use a Kubernetes API server.
	cluster bool
}

var (
	apimachinery = []string{"k8s.io/apimachinery"}
	ground       = []string{"placement", "snapshot", "drift/...", "approval"}
	// tried are implementations that tests run against instead of mocks.
	tried = []string{"backend/memory", "backend/bolt", "backend/faulty", "backend/backendtest", "internal/kubeenv"}
	// timing are the packages that decide when clusters are updated: the planner, calendars, and
	// runs in virtual time.
	timing = []string{"stages", "stages/check", "stages/planner", "stages/step", "internal/runstate", "stages/calendar", "stages/simulate", "versioned"}
	engine = with(with(ground, timing...), "backend", "fleet", "fleet/errdef", "fleet/upgrade/...", "health", "apply")
	// kube are the backends on API servers, kubeRoom their shared packages.
	kube     = []string{"backend/kube/store", "backend/kube/inventory", "backend/kube/source", "backend/kube/member"}
	kubeRoom = []string{"backend/kube/internal/api", "backend/kube/internal/watch", "internal/backoff", "internal/kubehttp"}
	// waiting is barred from the packages that wait for nothing and start no goroutine.
	waiting = []string{"context", "sync", "sync/atomic"}
	// withoutIO are barred from the packages that do no I/O.
	withoutIO = []string{
		"os", "net", "log", "math/rand", "math/rand/v2", "crypto/rand", "syscall", "unsafe",
		"testing", "database/sql", "plugin", "runtime/debug",
	}
)

// areas is the picture of ARCHITECTURE.md as a table. A package that no row
// contains is a violation.
var areas = []area{
	{path: ".", core: true}, // the documentation of the module
	{path: "placement", core: true, third: with(apimachinery, "github.com/evanphx/json-patch/v5")},
	{path: "snapshot", core: true, third: apimachinery, uses: []string{"versioned"}},
	// The Fleet API as Go types: a controller that imports them gets apimachinery alone.
	{path: "api/...", core: true, third: apimachinery},
	{path: "drift/schema/internal/generate", program: true},
	{path: "drift/internal/kinds", core: true},
	{path: "drift/internal/value", core: true, third: apimachinery, uses: []string{"drift/schema"}},
	{path: "drift/internal/fieldpath", core: true, third: apimachinery, uses: []string{"drift/internal/value"}},
	{path: "drift/internal/compare", core: true, third: apimachinery, uses: []string{"drift/schema", "drift/internal/kinds", "drift/internal/value", "drift/internal/fieldpath"}},
	{path: "drift/...", core: true, third: with(apimachinery, "sigs.k8s.io/structured-merge-diff/v4")},
	{path: "approval", core: true, third: apimachinery},
	{path: "health", core: true, third: with(apimachinery, "github.com/fluxcd/cli-utils/pkg/kstatus")},
	{path: "apply", core: true, third: apimachinery, uses: []string{"drift", "health", "snapshot"}},
	{path: "versioned", core: true},
	// The measurements, then the types, then the planner and the state machine over them.
	{path: "stages/check", core: true, third: apimachinery, bars: waiting},
	{path: "stages/internal/values", core: true, third: apimachinery, uses: []string{"approval"}, bars: waiting},
	{path: "stages", core: true, third: apimachinery, uses: with(ground, "stages/check", "stages/internal/values", "versioned"), testUses: []string{"stages/planner", "stages/step"}, bars: waiting},
	// The stored form of a run, which only this module can import.
	{path: "internal/runstate", core: true, third: apimachinery, uses: with(ground, "stages", "stages/check"), bars: waiting},
	{path: "stages/internal/inverse", core: true, third: apimachinery, uses: []string{"approval", "stages", "stages/internal/values"}, bars: waiting},
	{path: "stages/planner", core: true, third: apimachinery, uses: with(ground, "stages", "stages/check", "stages/internal/values"), testUses: []string{"stages/internal/inverse", "versioned"}, bars: waiting},
	{path: "stages/step", core: true, third: apimachinery, uses: with(ground, "stages", "stages/check", "stages/internal/inverse", "stages/internal/values", "internal/runstate", "versioned"), testUses: []string{"stages/planner"}, bars: waiting},
	{path: "stages/calendar", core: true, third: with(apimachinery, "github.com/teambition/rrule-go"), uses: with(ground, "stages"), testUses: []string{"stages/planner"}},
	{path: "stages/simulate", core: true, third: apimachinery, uses: with(ground, "stages", "stages/calendar", "stages/check", "stages/planner", "stages/step", "internal/runstate")},
	{path: "stages/timeline", core: true, uses: []string{"stages", "stages/check", "stages/simulate"}, testUses: with(ground, "stages/calendar")},
	{path: "backend", uses: with(ground, "apply"), testUses: tried},
	{path: "backend/memory", uses: with(ground, "backend", "internal/feed"), testUses: tried},
	{path: "backend/faulty", uses: with(ground, "backend"), testUses: tried},
	{path: "backend/backendtest", uses: with(ground, "backend", "backend/faulty"), testUses: tried},
	{path: "backend/bolt", uses: with(ground, "backend", "internal/feed"), testUses: tried},
	// The providers for checks, over one client that keeps to a host.
	{path: "backend/metrics/internal/outbound", uses: []string{"internal/secretfile"}},
	{path: "backend/metrics/prometheus", uses: []string{"backend", "backend/metrics/internal/outbound"}, testUses: []string{"internal/promenv"}},
	{path: "backend/metrics/httpjson", uses: []string{"backend", "backend/metrics/internal/outbound"}},
	// The backends on API servers: four packages over one client and one list-and-watch.
	{path: "backend/kube", testUses: with(kube, "fleet"), cluster: true},
	{path: "backend/kube/internal/api", uses: with(ground, "backend", "internal/kubehttp"), cluster: true},
	{path: "backend/kube/internal/watch", uses: []string{"backend", "backend/kube/internal/api", "internal/backoff"}, cluster: true},
	{path: "backend/kube/internal/kubetest", uses: with(ground, "backend", "internal/kubeenv"), program: true, cluster: true},
	{path: "backend/kube/store", uses: with(kubeRoom, "backend"), testUses: with(tried, "backend/kube/internal/kubetest", "internal/storebench", "fleet"), cluster: true},
	{path: "backend/kube/inventory", uses: with(kubeRoom, "backend", "placement"), testUses: with(tried, "backend/kube/internal/kubetest"), cluster: true},
	{path: "backend/kube/source", uses: with(kubeRoom, "backend", "snapshot", "internal/parallel"), testUses: with(tried, "backend/kube/internal/kubetest"), cluster: true},
	{path: "backend/kube/member", uses: with(kubeRoom, "backend", "placement", "snapshot"), testUses: with(with(tried, ground...), "stages", "internal/runstate", "fleet", "apply", "backend/kube/internal/kubetest"), cluster: true},
	{path: "fleet", uses: with(with(ground, timing...), "backend", "fleet/errdef", "apply", "health", "fleet/internal/...", "internal/backoff", "internal/flight", "internal/keyed", "internal/lru", "internal/parallel", "internal/reconcile"), testUses: with(tried, "internal/storebench")},
	{path: "fleet/httpapi", uses: with(with(ground, timing...), "backend", "fleet/errdef", "fleet", "internal/durations", "internal/lru", "internal/serving"), testUses: tried},
	{path: "fleet/httpapi/access", uses: []string{"approval", "fleet/httpapi", "internal/backoff"}},
	{path: "fleet/errdef", uses: []string{"backend"}},
	{path: "fleet/storecheck", uses: with(ground, "backend", "fleet"), testUses: with(tried, timing...)},
	// The packages of the engine, the most basic ones first. Each may use the packages that it
	// names, which must be above it in this list.
	{path: "fleet/internal/guard", uses: with(ground, "backend", "internal/backoff"), testUses: tried},
	{path: "fleet/internal/once"},
	{path: "fleet/internal/lenient", uses: []string{"backend"}},
	// The state machine of a placement, as pure as the state machine of a run.
	{path: "fleet/internal/lifecycle", core: true, third: apimachinery, uses: with(ground, "stages", "stages/step", "internal/runstate"), testUses: []string{"stages/planner"}, bars: waiting},
	{path: "fleet/internal/problems", uses: []string{"stages"}},
	{path: "fleet/internal/record", uses: with(with(ground, timing...), "backend", "fleet/internal/lifecycle", "apply", "fleet/internal/member", "fleet/internal/guard", "versioned"), testUses: with(tried, "health")},
	{path: "fleet/internal/content", uses: with(ground, "backend", "fleet/internal/member", "fleet/internal/record", "fleet/internal/guard", "internal/flight", "internal/lru"), testUses: tried},
	{path: "fleet/internal/state", uses: with(with(ground, timing...), "backend", "fleet/internal/lifecycle", "fleet/errdef", "apply", "fleet/internal/member", "fleet/internal/record", "fleet/internal/guard", "fleet/internal/content", "fleet/internal/problems", "internal/flight", "internal/lru"), testUses: tried},
	{path: "fleet/internal/caps", uses: []string{"stages", "backend", "fleet/errdef", "fleet/internal/guard", "fleet/internal/record", "fleet/internal/state"}, testUses: with(tried, "stages/step")},
	{path: "fleet/internal/commands", uses: []string{"stages", "versioned", "backend", "fleet/internal/record", "fleet/internal/state"}, testUses: tried},
	{path: "fleet/internal/planning", uses: with(with(ground, timing...), "backend", "fleet/internal/lifecycle", "fleet/errdef", "fleet/internal/member", "fleet/internal/record", "fleet/internal/guard", "fleet/internal/content", "fleet/internal/problems", "fleet/internal/state"), testUses: tried},
	{path: "fleet/internal/admission", uses: with(with(ground, timing...), "backend", "fleet/internal/lifecycle", "fleet/errdef", "fleet/internal/record", "fleet/internal/guard", "fleet/internal/content", "fleet/internal/problems", "fleet/internal/state", "fleet/internal/caps", "fleet/internal/planning"), testUses: tried},
	{path: "fleet/internal/driftwatch", uses: with(with(ground, timing...), "backend", "fleet/internal/lifecycle", "fleet/errdef", "apply", "fleet/internal/member", "fleet/internal/record", "fleet/internal/guard", "fleet/internal/problems", "fleet/internal/state", "fleet/internal/planning", "internal/backoff", "internal/parallel", "internal/reconcile"), testUses: tried},
	{path: "fleet/internal/examine", uses: with(with(ground, timing...), "backend", "fleet/internal/lifecycle", "health", "fleet/internal/member", "fleet/internal/record", "fleet/internal/state", "internal/backoff", "internal/reconcile"), testUses: with(tried, "fleet/internal/content")},
	{path: "fleet/internal/balance", uses: with(ground, "stages", "versioned", "backend", "fleet/internal/record", "fleet/internal/state", "internal/backoff"), testUses: tried},
	{path: "fleet/internal/runner", uses: with(with(ground, timing...), "backend", "fleet/internal/lifecycle", "fleet/errdef", "fleet/internal/balance", "fleet/internal/examine", "fleet/internal/member", "fleet/internal/record", "fleet/internal/guard", "fleet/internal/content", "fleet/internal/state", "fleet/internal/caps", "fleet/internal/commands", "fleet/internal/planning", "fleet/internal/admission", "fleet/internal/driftwatch", "internal/backoff", "internal/parallel", "internal/reconcile"), testUses: tried},
	{path: "fleet/internal/member", uses: with(ground, "stages", "versioned", "backend", "apply", "health", "stages/check", "fleet/internal/guard", "fleet/internal/once", "fleet/internal/lenient", "internal/flight", "internal/keyed", "internal/lru"), testUses: tried},
	// Nothing but tests: engines in processes of their own that are paused or killed.
	{path: "fleet/internal/takeover", testUses: with(with(tried, ground...), "backend", "fleet", "stages", "internal/keyed")},
	// Combinations of authorities: they know the gates, and no engine but in tests.
	{path: "fleet/authority", uses: []string{"approval", "fleet/internal/guard"}, testUses: with(engine, tried...)},
	{path: "fleet/metrics", uses: engine, testUses: tried, cluster: true},
	{path: "fleet/trigger", uses: engine, testUses: tried},
	{path: "fleet/upgrade/...", uses: with(engine, "fleet/upgrade/...", "internal/parallel"), testUses: with(with(tried, kube...), "fleet/trigger")},
	{path: "formats/...", uses: with(engine, "api/...", "formats/...", "versioned"), testUses: with(tried, "formats/...")},
	{path: "hub/manifests/internal/generate", uses: []string{"hub/compat"}, program: true},
	{path: "hub/manifests", uses: []string{"api/...", "approval", "backend", "placement", "snapshot", "formats/kubefleet", "hub/compat", "hub/internal/api"}, testUses: with(tried, "backend/kube/..."), cluster: true},
	// The areas of the hub, from the lowest up: the names of the API, the translation of facts to
	// statuses, the client, and a reconciler for each kind.
	{path: "hub/compat", uses: []string{"api/...", "approval"}, bars: withoutIO},
	{path: "hub/internal/api", uses: with(engine, "api/...", "formats/kubefleet", "formats/problem")},
	{path: "hub/internal/status", uses: with(engine, "api/...", "formats/kubefleet", "hub/compat", "hub/internal/api"), testUses: tried, bars: with(withoutIO, "context", "sync", "sync/atomic")},
	{path: "hub/internal/metrics", uses: []string{"stages"}},
	{path: "hub/internal/queues", uses: []string{"hub/internal/api", "internal/reconcile"}},
	{path: "hub/internal/objects", uses: with(engine, "formats/kubefleet", "hub/internal/api", "hub/internal/queues", "internal/kubehttp", "internal/reconcile"), cluster: true},
	{path: "hub/internal/seals", uses: with(engine, "api/...", "hub/internal/api", "hub/internal/status")},
	{path: "hub/internal/policies", uses: []string{"approval", "backend", "hub/internal/api", "hub/manifests", "internal/backoff"}, cluster: true},
	{path: "hub/internal/requests", uses: with(engine, "formats/kubefleet", "hub/internal/api", "hub/internal/status", "hub/internal/objects", "hub/internal/queues", "hub/internal/seals", "hub/internal/policies"), testUses: []string{"backend/memory"}},
	{path: "hub/internal/overrides", uses: with(engine, "formats/kubefleet", "hub/internal/api", "hub/internal/status", "hub/internal/objects")},
	{path: "hub/internal/members", uses: []string{"api/...", "backend", "placement", "hub/internal/api", "hub/internal/status", "hub/internal/objects", "hub/internal/queues"}, testUses: []string{"internal/reconcile"}},
	{path: "hub/internal/applications", uses: with(engine, "formats/oam", "formats/oam/delivery", "hub/internal/api", "hub/internal/objects", "hub/internal/queues")},
	{path: "hub/internal/placements", uses: with(with(engine, "api/...", "backend/kube/source", "formats/kubefleet", "internal/backoff"), "hub/compat", "hub/internal/api", "hub/internal/status", "hub/internal/objects", "hub/internal/queues", "hub/internal/overrides"), testUses: []string{"internal/reconcile"}},
	{path: "hub/internal/reportback", uses: with(engine, "backend/kube/source", "formats/kubefleet", "hub/internal/api", "hub/internal/objects", "hub/internal/queues", "hub/internal/placements")},
	{path: "hub/internal/evictions", uses: with(engine, "api/...", "formats/kubefleet", "hub/internal/api", "hub/internal/status", "hub/internal/objects", "hub/internal/queues", "hub/internal/placements")},
	{path: "hub/internal/runs", uses: with(with(engine, "api/...", "formats/kubefleet", "hub/manifests"), "hub/compat", "hub/internal/api", "hub/internal/status", "hub/internal/objects", "hub/internal/queues", "hub/internal/overrides", "hub/internal/placements", "hub/internal/requests", "hub/internal/policies", "hub/internal/seals", "hub/internal/metrics")},
	{path: "hub/migrate", uses: with(with(engine, "backend/kube/inventory", "backend/kube/member", "backend/kube/source"), "api/...", "formats/kubefleet", "hub/internal/api", "hub/manifests", "internal/kubehttp"), testUses: with(tried, "hub", "hub/compat"), cluster: true},
	{path: "hub/hubapi", uses: with(with(engine, kube...), "fleet/httpapi", "api/...", "formats/kubefleet", "hub/compat", "hub/internal/api", "hub/internal/status", "internal/kubehttp"), testUses: with(tried, "hub", "hub/manifests", "internal/parallel"), cluster: true},
	{path: "hub", uses: with(with(engine, kube...), "api/...", "formats/kubefleet", "formats/oam", "formats/oam/delivery", "internal/kubehttp", "internal/backoff", "internal/reconcile", "internal/serving", "hub/..."), testUses: with(tried, "formats/...", "backend/metrics/prometheus", "internal/promenv"), cluster: true},
	{path: "examples/...", uses: with(engine, "api/...", "backend/...", "formats/...", "hub/...", "internal/kubeenv", "internal/durable"), program: true, cluster: true},
	{path: "internal/arch"},
	{path: "internal/backoff"},
	{path: "internal/reconcile", cluster: true}, // only for the work queue of client-go
	{path: "internal/deps"},
	{path: "internal/docs", testUses: with(engine, "backend/memory", "backend/bolt", "internal/kubeenv")}, // what documents show
	{path: "internal/feed", uses: with(ground, "backend")},
	{path: "internal/flight"},
	{path: "internal/durations"},
	{path: "internal/durable", uses: with(ground, "backend", "backend/memory"), testUses: tried},
	{path: "internal/keyed"},
	{path: "internal/krew", program: true},
	{path: "internal/prose", program: true},
	{path: "internal/reference", program: true, testUses: []string{"fleet", "fleet/metrics"}, cluster: true}, // only for the names of metrics
	{path: "internal/kubefleet", uses: []string{"internal/kubeenv"}, program: true, cluster: true},
	{path: "internal/kubehttp", cluster: true},
	{path: "internal/lru"},
	{path: "internal/parallel"},
	{path: "internal/secretfile"},
	{path: "internal/serving"},
	{path: "internal/pgenv", program: true}, // for backend/postgres, a module of its own
	{path: "internal/promenv", uses: []string{"internal/kubeenv"}, program: true},
	{path: "internal/remotefleet", uses: with(ground, "backend", "backend/memory"), testUses: tried},
	// The throughput of a store, for benchmarks of all stores and of the engine.
	{path: "internal/storebench", program: true, uses: with(engine, "backend/memory")},
	{path: "internal/kubeenv/...", program: true, cluster: true},
	// The soak program: the laws are pure, the environment holds engines to them, and the program
	// plays scenarios in it.
	{path: "internal/soak/laws", uses: with(ground, "stages", "stages/step", "internal/runstate"), testUses: []string{"stages/planner"}, bars: with(withoutIO, "context")},
	{path: "internal/soak/environment", uses: with(engine, "backend/memory", "backend/bolt", "backend/faulty", "internal/durable", "internal/keyed", "internal/soak/laws")},
	{path: "internal/soak", uses: with(engine, "backend/bolt", "backend/faulty", "internal/soak/laws", "internal/soak/environment"), program: true},
}

// clusterModules talk to API servers, or import modules that do.
var clusterModules = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/kubernetes", "k8s.io/apiserver"}

// hostModules change state of the whole process, or print through it, when they are imported or
// used.
var hostModules = []string{"flag", "expvar", "net/http/pprof", "k8s.io/klog", "k8s.io/klog/v2", "github.com/golang/glog"}

// hostNames are names that a library must not use, because they control the process of its host:
// its end, its signals, its output, its defaults, its environment.
var hostNames = map[string][]string{
	"os":            {"Exit", "Stdin", "Stdout", "Stderr", "Args", "Setenv", "Unsetenv", "Clearenv", "Chdir"},
	"os/signal":     {"Notify", "NotifyContext", "Ignore", "Reset", "Stop"},
	"net/http":      {"DefaultClient", "DefaultTransport", "DefaultServeMux", "Get", "Head", "Post", "PostForm", "Handle", "HandleFunc", "ListenAndServe", "ListenAndServeTLS"},
	"log":           {"Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "Print", "Printf", "Println", "SetOutput", "SetFlags", "SetPrefix", "Default"},
	"log/slog":      {"SetDefault", "SetLogLoggerLevel"},
	"fmt":           {"Print", "Printf", "Println"},
	"runtime":       {"GOMAXPROCS"},
	"runtime/debug": {"SetGCPercent", "SetMemoryLimit", "SetMaxStack", "SetMaxThreads"},
}

// clockNames read the clock or wait for it.
var clockNames = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
}

func with(list []string, more ...string) []string {
	return append(append([]string{}, list...), more...)
}
