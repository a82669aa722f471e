"""What only AWS's own SDK can check of the failover: `calls` holds the document's calls against its descriptions of the
services; `fence` runs the script against the stand-in that AWS_ENDPOINT_URL names."""

import importlib.util
import json
import re
import sys

import boto3
import botocore.session
from botocore.validate import ParamValidator

REGION = "us-east-1"
KINDS = {"String": "string", "Integer": "integer", "StringList": "list", "Boolean": "boolean"}


def faults_of(session, call):
    """What is wrong with one call; nothing if it is as AWS describes it."""
    step, service, api = call["step"], call["service"], call["api"]
    model = session.get_service_model(service)
    if api not in model.operation_names:
        return [f"{step}: {service} has no {api}"]
    operation = model.operation_model(api)
    report = ParamValidator().validate(call["parameters"], operation.input_shape)
    faults = [f"{step}: {report.generate_report()}"] if report.has_errors() else []
    for selector, kind in call["selectors"]:
        shape = follow(operation.output_shape, selector)
        if shape is None:
            faults.append(f"{step}: {api} answers no {selector}")
        elif kind is not None and shape.type_name != KINDS[kind]:
            faults.append(f"{step}: {selector} is {shape.type_name}, not {kind}")
    return faults


def follow(shape, selector):
    """The shape to which `$.a[0].b` leads; None when it leads nowhere."""
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", selector):
        if name and shape.type_name == "structure" and name in shape.members:
            shape = shape.members[name]
        elif index and shape.type_name == "list":
            shape = shape.member
        else:
            return None
    return shape


def drive_fence(script):
    """Two subnets of a database and one of something else; the answer says what became of them."""
    ec2 = boto3.client("ec2", region_name=REGION)
    vpc = ec2.create_vpc(CidrBlock="10.10.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.10.{index}.0/24")["Subnet"]["SubnetId"] for index in range(3)
    ]
    acl = ec2.create_network_acl(VpcId=vpc)["NetworkAcl"]["NetworkAclId"]
    before = acls_by_subnet(ec2, subnets)
    events = {
        "node": "us-east",
        "fences": {"us-east": {"region": REGION, "network_acl_id": acl, "subnet_ids": subnets[:2]}},
    }
    answer = script.fence(events, None)
    first = acls_by_subnet(ec2, subnets)
    is_right = (
        first == {subnets[0]: acl, subnets[1]: acl, subnets[2]: before[subnets[2]]}
        and answer["before"] == f"{subnets[0]}={before[subnets[0]]} {subnets[1]}={before[subnets[1]]}"
    )
    script.fence(events, None)
    again = acls_by_subnet(ec2, subnets)
    place = events["fences"]["us-east"]
    missing = {**events, "fences": {"us-east": {**place, "subnet_ids": [subnets[0], "subnet-0123456789abcdef0"]}}}
    is_missing_refused = is_refused(script, missing)
    ec2.create_network_acl_entry(
        NetworkAclId=acl, RuleNumber=100, Protocol="-1", RuleAction="allow", Egress=False, CidrBlock="0.0.0.0/0"
    )
    return {
        "first": "every subnet of the database has the fence; the others have what they had"
        if is_right
        else str(first),
        "again": "nothing changes" if again == first else str(again),
        "gap": "refused" if is_refused(script, events) else "not noticed",
        "missing": "refused" if is_missing_refused else "not noticed",
    }


def is_refused(script, events):
    """The script says that it did not fence."""
    try:
        script.fence(events, None)
    except RuntimeError as cause:
        return "not fenced" in str(cause)
    return False


def acls_by_subnet(ec2, subnets):
    """By subnet the ACL that it has."""
    return {
        association["SubnetId"]: acl["NetworkAclId"]
        for acl in ec2.describe_network_acls()["NetworkAcls"]
        for association in acl["Associations"]
        if association["SubnetId"] in subnets
    }


def load(path):
    """The script as a module, as the automation runs it."""
    spec = importlib.util.spec_from_file_location("fence", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(what, script):
    """One answer as JSON."""
    if what == "fence":
        return drive_fence(load(script))
    session = botocore.session.get_session()
    return [fault for call in json.load(sys.stdin) for fault in faults_of(session, call)]


json.dump(main(*sys.argv[1:]), sys.stdout)
