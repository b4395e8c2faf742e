package main

import (
	"regexp"
	"strings"

	"github.com/slipway-dev/slipway/formats/azure"
)

// commands are all there are.
func commands() []command {
	return append(memberCommands(), append(strategyCommands(), append(runCommands(), gateCommands()...)...)...)
}

// fleetFlags are those of every command.
func fleetFlags() []option {
	return []option{
		{name: "resource-group", short: "g", what: "GROUP", help: "the resource group of the fleet", check: isResourceGroup},
		{name: "fleet-name", short: "f", what: "FLEET", help: "the name of the fleet", check: isName(63)},
	}
}

// named are the flags of every command about one thing.
func named(what string, more ...option) []option {
	return append(append(fleetFlags(), option{name: "name", short: "n", what: "NAME", help: "the name of the " + what, check: isName(azure.MaxName)}), more...)
}

func memberCommands() []command {
	group := option{name: "update-group", what: "GROUP", help: "the update group of the member", check: isName(azure.MaxName)}
	labels := option{name: "labels", what: "KEY=VALUE ...", many: true, help: "labels for memberSelectors", check: isLabel}
	id := option{name: "member-cluster-id", what: "ID", help: "the resource id of the cluster"}
	simulated := []option{
		{name: "region", what: "REGION", help: "where the simulated cluster is (default eastus)", check: isName(azure.MaxName)},
		{name: "from-version", what: "VERSION", help: "the Kubernetes version that it has (default 1.25.6)", check: isVersion},
		{name: "takes", what: "TIME", help: "how long a step of an upgrade lasts (default 2s)", check: isDuration},
		{name: "fail", what: "N", help: "how many steps fail before one does not (default 0)", check: isNumber(0)},
	}
	return []command{
		{noun: "member", verb: "create", help: "adds a member", needs: named("member", id), takes: append([]option{group, labels}, simulated...), makes: true, do: createMember},
		{noun: "member", verb: "update", help: "moves a member to another update group", needs: named("member"), takes: []option{group, labels}, check: oneGiven("update-group", "labels"), do: updateMember},
		{noun: "member", verb: "list", help: "lists the members", needs: fleetFlags(), do: listMembers},
		{noun: "member", verb: "show", help: "shows a member", needs: named("member"), do: showMember},
		{noun: "member", verb: "delete", help: "takes a member out of the fleet", needs: named("member"), do: deleteMember},
	}
}

func stagesFlag() option {
	return option{name: "stages", what: "FILE", help: "a JSON file with the stages"}
}

func strategyCommands() []command {
	return []command{
		{noun: "updatestrategy", verb: "create", help: "stores stages for runs to come", needs: named("strategy", stagesFlag()), makes: true, do: createStrategy},
		{noun: "updatestrategy", verb: "list", help: "lists the strategies", needs: fleetFlags(), do: listStrategies},
		{noun: "updatestrategy", verb: "show", help: "shows a strategy", needs: named("strategy"), do: showStrategy},
		{noun: "updatestrategy", verb: "delete", help: "deletes a strategy; runs keep their copies", needs: named("strategy"), do: deleteStrategy},
	}
}

func runCommands() []command {
	noWait := option{name: "no-wait", help: "ask for it and drive nothing"}
	return []command{
		{
			noun: "updaterun", verb: "create", help: "plans a run", makes: true, check: checkUpgrade, do: createRun,
			needs: named("run", option{name: "upgrade-type", what: "TYPE", help: "Full, ControlPlaneOnly or NodeImageOnly", check: oneOf("Full", "ControlPlaneOnly", "NodeImageOnly")}),
			takes: createFlags(),
		},
		{noun: "updaterun", verb: "start", help: "starts a run, or goes on with it", needs: named("run"), takes: []option{noWait}, do: startRun},
		{noun: "updaterun", verb: "stop", help: "stops a run; what is in flight ends", needs: named("run"), do: stopRun},
		{
			noun: "updaterun", verb: "skip", help: "skips parts of a run", do: skipTargets,
			needs: named("run", option{name: "targets", what: "TYPE:NAME ...", many: true, help: "Member:m, Group:g, Stage:s or AfterStageWait:s", check: isTarget}),
		},
		{
			noun: "updaterun", verb: "retry", help: "tries again what failed, or was skipped", needs: named("run"), do: retryRun,
			takes: []option{{name: "only", what: "STATE", help: "Failed or Skipped (default Failed)", check: oneOf("Failed", "Skipped")}, noWait},
		},
		{noun: "updaterun", verb: "list", help: "lists the runs", needs: fleetFlags(), do: listRuns},
		{noun: "updaterun", verb: "show", help: "shows a run", needs: named("run"), do: showRun},
		{noun: "updaterun", verb: "delete", help: "deletes a run", needs: named("run"), do: deleteRun},
	}
}

// createFlags are those of a run that is made.
func createFlags() []option {
	return []option{
		{name: "kubernetes-version", what: "VERSION", help: "the version to go to; not with NodeImageOnly", check: isVersion},
		{name: "node-image-selection", what: "HOW", help: "Latest, Consistent or Custom (default Latest)", check: oneOf("Latest", "Consistent", "Custom")},
		{name: "node-images", what: "IMAGE ...", many: true, help: "the images of Custom"},
		stagesFlag(),
		{name: "update-strategy-name", what: "NAME", help: "the strategy whose stages are copied", check: isName(azure.MaxName)},
		{name: "speed", what: "N", help: "how many times shorter waits are (default 1)", check: isNumber(1)},
		{name: "preview", help: "show the plan and when it would end, and record nothing"},
	}
}

func gateCommands() []command {
	return []command{
		{noun: "gate", verb: "list", help: "lists the gates that a run has come to", needs: named("run"), do: listGates},
		{
			noun: "gate", verb: "update", help: "completes a gate", do: updateGate,
			needs: named("run",
				option{name: "gate-name", what: "GATE", help: "the name that gate list tells"},
				option{name: "state", what: "Completed", help: "what it becomes", check: oneOf("Completed")}),
		},
	}
}

// oneGiven returns a check that at least one of two flags is there.
func oneGiven(a, b string) func(*line) []string {
	return func(l *line) []string {
		if l.given(a) || l.given(b) {
			return nil
		}
		return []string{"there is nothing to update: --" + a + " or --" + b + " is missing"}
	}
}

// checkUpgrade checks the flags of a run together, as az does.
func checkUpgrade(l *line) (problems []string) {
	kind, version := l.one("upgrade-type"), l.given("kubernetes-version")
	custom, images := l.one("node-image-selection") == "Custom", l.given("node-images")
	for _, p := range []struct {
		wrong bool
		text  string
	}{
		{(kind == "Full" || kind == "ControlPlaneOnly") && !version, "--kubernetes-version is missing: --upgrade-type " + kind + " needs the version to go to"},
		{kind == "NodeImageOnly" && version, "--kubernetes-version is for --upgrade-type Full and ControlPlaneOnly: NodeImageOnly leaves the versions"},
		{kind == "ControlPlaneOnly" && (l.given("node-image-selection") || images), "--node-image-selection is for --upgrade-type Full and NodeImageOnly: ControlPlaneOnly leaves the nodes"},
		{custom && !images, "--node-images is missing: --node-image-selection Custom needs the images"},
		{images && !custom, "--node-images is for --node-image-selection Custom"},
		{l.given("stages") && l.given("update-strategy-name"), "--stages and --update-strategy-name exclude each other: take one"},
	} {
		if p.wrong {
			problems = append(problems, p.text)
		}
	}
	return problems
}

func isVersion(s string) string {
	if regexp.MustCompile(`^v?\d{1,3}\.\d{1,3}\.\d{1,3}$`).MatchString(s) {
		return ""
	}
	return "a version with its patch, for example 1.26.0"
}

func isLabel(s string) string {
	key, value, ok := strings.Cut(s, "=")
	if ok && key != "" && key != azure.UpdateGroupLabel && labelProblem(key, value) == "" {
		return ""
	}
	return "KEY=VALUE, as labels of Kubernetes are, and not " + azure.UpdateGroupLabel
}

// isTarget checks a target of a skip.
func isTarget(s string) string {
	if _, err := azure.SkipOf(s); err == nil {
		return ""
	}
	return "Member:NAME, Group:NAME, Stage:NAME or AfterStageWait:STAGE"
}
