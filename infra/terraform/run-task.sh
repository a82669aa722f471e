#!/usr/bin/env bash
# Runs a task of a system on AWS once, in its region and network: prints what the task printed, and
# ends with the exit code that it ended with. Needs the AWS CLI, jq, and rights to run the task, to
# pass its roles, and to read its log.
set -euo pipefail

usage() {
  cat >&2 << 'END'
Usage: run-task.sh [-e NAME=VALUE]... REGION TASK [COMMAND...]

TASK      gateway-1, tracker-1, setup or failover: a task definition of the region, without the system's and the region's name
COMMAND   runs in place of the task's own, with its environment and secrets
-e        a variable of the environment; no secrets, for what a task is started with can be read

SYSTEM    (environment) the system's name: highwater, unless Terraform's variable `name` says otherwise
END
  exit 2
}

environment='[]'
while getopts e: option; do
  case "$option" in
    e)
      [[ "$OPTARG" == *=* ]] || usage
      environment="$(jq -c --arg name "${OPTARG%%=*}" --arg value "${OPTARG#*=}" '. + [{$name, $value}]' <<< "$environment")"
      ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
[[ $# -ge 2 ]] || usage
region="$1" task="$2"
shift 2
cluster="${SYSTEM:-highwater}-$region"
# `gateway-1` is a slot; its container has the name of its kind.
container="${task%-[0-9]*}"

overrides="$(jq -nc --arg name "$container" --argjson environment "$environment" \
  '{containerOverrides: [{$name, $environment} + (if $ARGS.positional == [] then {} else {command: $ARGS.positional} end)]}' --args -- "$@")"
# That of the region's first gateway, which may talk to all services and databases.
network="$(aws ecs describe-services --region "$region" --cluster "$cluster" --services "$region-gateway-1" \
  --query 'services[0].networkConfiguration' --output json)"
started="$(aws ecs run-task --region "$region" --cluster "$cluster" --launch-type FARGATE --task-definition "$cluster-$task" \
  --network-configuration "$network" --overrides "$overrides" --query 'tasks[0].taskArn' --output text)"
if [[ "$started" != arn:* ]]; then
  echo "run-task: ECS has not started $cluster-$task: is there room for it in the account's quota of vCPU?" >&2
  exit 1
fi
aws ecs wait tasks-stopped --region "$region" --cluster "$cluster" --tasks "$started"
# Lines can be read some seconds after they were printed: until two looks agree, and not for ever,
# for it may have printed nothing.
printed='' before=''
for _ in 1 2 3 4 5 6 7 8; do
  sleep 3
  printed="$(aws logs get-log-events --region "$region" --log-group-name "/$cluster/$container" \
    --log-stream-name "$container/$container/${started##*/}" --start-from-head --output json 2> /dev/null | jq -r '.events[].message')" || true
  if [[ -n "$printed" && "$printed" == "$before" ]]; then break; fi
  before="$printed"
done
printf '%s\n' "$printed"
ended="$(aws ecs describe-tasks --region "$region" --cluster "$cluster" --tasks "$started" --query 'tasks[0]' --output json)"
code="$(jq -r --arg name "$container" '.containers[] | select(.name == $name) | .exitCode // empty' <<< "$ended")"
if [[ -z "$code" ]]; then
  jq -r '"run-task: it did not run: \(.stoppedReason)"' <<< "$ended" >&2
  exit 1
fi
exit "$code"
