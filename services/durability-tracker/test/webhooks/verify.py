# Verifies messages with the published library. Input: JSON lines of {secret, headers, body}.
# Output: "ok" or "refused" for each line.
import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

for line in sys.stdin:
    message = json.loads(line)
    try:
        Webhook(message["secret"]).verify(message["body"], message["headers"])
        print("ok")
    except WebhookVerificationError:
        print("refused")
