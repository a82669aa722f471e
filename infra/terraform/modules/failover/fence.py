"""Cuts a region's database off from everybody, and makes sure that it is.

Run by the automation (`aws:executeScript`), in another region than the database's. A network ACL
that allows nothing takes the place of whichever ACL the database's subnets have: an ACL keeps no
connections in mind, so it ends those that are open, which taking rules away from a security group
does not. Doing it again changes nothing.
"""

import boto3
from botocore.config import Config

# A region that is half dead answers late or not at all; the operator is waiting.
SETTINGS = Config(connect_timeout=10, read_timeout=30, retries={"total_max_attempts": 5, "mode": "standard"})


def fence(events, context):
    """`node`: the old primary.

    `fences`: by node its region, subnets and the ACL that allows nothing.
    """
    place = events["fences"][events["node"]]
    ec2 = boto3.client("ec2", region_name=place["region"], config=SETTINGS)
    wanted, subnets = place["network_acl_id"], place["subnet_ids"]

    refuse_a_gap(ec2, wanted)
    before = associations_of(ec2, subnets)
    for subnet in subnets:
        association, acl = before[subnet]
        if acl != wanted:
            ec2.replace_network_acl_association(AssociationId=association, NetworkAclId=wanted)
    open_still = sorted(subnet for subnet, (_, acl) in associations_of(ec2, subnets).items() if acl != wanted)
    if open_still:
        raise RuntimeError(f"not fenced: {', '.join(open_still)} in {place['region']} have another ACL than {wanted}")
    # To take it back: associate these again (docs/deploy-aws.md).
    return {"before": " ".join(f"{subnet}={before[subnet][1]}" for subnet in subnets)}


def refuse_a_gap(ec2, acl):
    """Somebody may have given it a rule since it was made."""
    entries = ec2.describe_network_acls(NetworkAclIds=[acl])["NetworkAcls"][0]["Entries"]
    gaps = [entry["RuleNumber"] for entry in entries if entry["RuleAction"] != "deny"]
    if gaps:
        raise RuntimeError(f"not fenced: {acl} has rules that allow something ({gaps}); take them away and start again")


def associations_of(ec2, subnets):
    """By subnet its association and the ACL that it has. Errors: a subnet that is not there."""
    acls = ec2.describe_network_acls(Filters=[{"Name": "association.subnet-id", "Values": subnets}])["NetworkAcls"]
    found = {
        association["SubnetId"]: (association["NetworkAclAssociationId"], association["NetworkAclId"])
        for acl in acls
        for association in acl["Associations"]
        if association["SubnetId"] in subnets
    }
    missing = sorted(set(subnets) - set(found))
    if missing:
        raise RuntimeError(f"not fenced: no such subnets: {', '.join(missing)}")
    return found
