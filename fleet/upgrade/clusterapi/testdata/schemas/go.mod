// Nothing is built here: the tests read the definitions of kinds that this module has
// in config/crd/bases and controlplane/kubeadm/config/crd/bases.
module github.com/slipway-dev/slipway/fleet/upgrade/clusterapi/testdata/schemas

go 1.26.0

require sigs.k8s.io/cluster-api v1.11.3
